"""Makes a dispatcher of an entry point: imports a package, which runs a stranger's code.

Light on purpose: the process of a plugin begins with this.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from multiqueue.plugins import ChecksArguments, Dispatcher
from multiqueue.plugins.raised import describe_error


class EntryError(Exception):
    """There is no dispatcher there; the text goes after its name."""


def make_dispatcher(value: str) -> Dispatcher:
    """Make the dispatcher of an entry point, ``module:attribute``.

    Raises:
        EntryError: there is none.
    """
    module, _, path = value.partition(":")
    try:
        made: Any = import_module(module.strip())
        for attribute in path.strip().split("."):
            made = getattr(made, attribute)
        dispatcher = made()
        is_one = isinstance(dispatcher, Dispatcher) and callable(dispatcher.nominate)
    except (Exception, SystemExit) as error:
        raise EntryError(f"({value}) cannot be loaded: {describe_error(error)}") from error
    if not is_one:
        raise EntryError(f"({value}) has no name or no nominate(view)")
    return cast("Dispatcher", dispatcher)


def check_arguments(dispatcher: Dispatcher, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Have a dispatcher look at its arguments; return what is wrong with them.

    None: it cannot tell.
    """
    if not isinstance(dispatcher, ChecksArguments):
        return None
    return tuple([str(problem) for problem in dispatcher.check_arguments(arguments)])
