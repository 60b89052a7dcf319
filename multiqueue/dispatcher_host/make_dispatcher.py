"""Make a dispatcher from an entry point; this imports a package, which runs foreign code.

This module imports little on purpose: the process of a plugin starts with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, cast

from multiqueue.plugins import ChecksArguments, Dispatcher
from multiqueue.plugins.raised import describe_error


class EntryError(Exception):
    """The entry point has no dispatcher; the text follows the dispatcher's name."""


def make_dispatcher(value: str) -> Dispatcher:
    """Make the dispatcher of an entry point, ``module:attribute``.

    Raises:
        EntryError: There is no dispatcher.
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
    if iscoroutinefunction(dispatcher.nominate):
        raise EntryError(f"({value}) has an async nominate; write it with def, without async")
    return cast("Dispatcher", dispatcher)


def check_arguments(dispatcher: Dispatcher, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Have a dispatcher check its arguments; return the problems.

    Returns None if the dispatcher does not check arguments.
    """
    if not isinstance(dispatcher, ChecksArguments):
        return None
    return tuple([str(problem) for problem in dispatcher.check_arguments(arguments)])
