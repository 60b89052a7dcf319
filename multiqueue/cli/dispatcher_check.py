"""Compares the dispatcher in a configuration with the dispatchers that are installed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiqueue.api.config import Configuration
from multiqueue.api.config.types import PROCESS
from multiqueue.api.validation.access import mapping
from multiqueue.dispatcher_host.arguments import build_arguments
from multiqueue.dispatcher_host.isolation.confine import list_open_ways
from multiqueue.dispatcher_host.registry import Dispatchers
from multiqueue.lib import bounded_yaml
from multiqueue.plugins import ChecksArguments, Dispatcher

NAME, ARGUMENTS = "multiKueue.dispatcherName", "multiKueue.dispatcherArguments"
ISOLATION = "multiKueue.dispatcherIsolation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The problems found; each text begins with the field."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_dispatcher(text: str, config: Configuration | None) -> Judgement:
    """Find the dispatcher, and let it check its arguments; this runs code of its package.

    Args:
        text: The text of the file, which is used if the file has other mistakes.
        config: The file's configuration; None if it cannot be read as a whole.
    """
    section = config.multi_kueue if config is not None else Configuration().multi_kueue
    name, arguments = section.dispatcher_name, dict(section.dispatcher_arguments)
    if config is not None:
        arguments = dict(build_arguments(config, name))
    else:
        written = _read_section(text)
        name = str(written.get("dispatcherName") or name)
        arguments = dict(mapping(written, "dispatcherArguments"))
    dispatchers = Dispatchers()
    selection = dispatchers.select(name)
    if selection.dispatcher is None:
        return Judgement(errors=(f"{NAME}: {selection.problem}",))
    notices: tuple[str, ...] = (f"{NAME}: {selection.notice}",) if selection.notice else ()
    if section.dispatcher_isolation.mode == PROCESS and dispatchers.find(name).apart:
        notices += tuple(
            f'{ISOLATION}: this machine cannot keep dispatcher "{name}" from {way}'
            for way in list_open_ways()
        )
    errors = _check(selection.dispatcher, arguments)
    if errors is None:
        words = f'dispatcher "{name}" does not check its arguments beforehand'
        return Judgement(warnings=(*notices, f"{ARGUMENTS}: {words}") if arguments else notices)
    return Judgement(errors=tuple(f"{ARGUMENTS}: {e}" for e in errors), warnings=notices)


def _check(dispatcher: Dispatcher, arguments: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the problems of arguments; None if the dispatcher has no check."""
    if not isinstance(dispatcher, ChecksArguments):
        return None
    try:
        return tuple(dispatcher.check_arguments(arguments))
    except Exception as error:  # noqa: BLE001 - whatever a stranger's package does
        return (f"check_arguments raised {type(error).__name__}: {error}",)


def _read_section(text: str) -> Mapping[str, Any]:
    try:
        raw = bounded_yaml.load(text)
    except bounded_yaml.YamlError:
        return {}
    return mapping(raw, "multiKueue") if isinstance(raw, dict) else {}
