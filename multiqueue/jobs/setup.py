"""From the names in the configuration to the kinds that are queued."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module

from multiqueue.api.config import Configuration
from multiqueue.api.config.gates import Gate
from multiqueue.api.job_kinds import JOB_KINDS, KNOWN_FRAMEWORKS, KnownKind
from multiqueue.jobs.registry import IntegrationRegistry, SupportedKind


class UnknownFrameworkError(Exception):
    """The Configuration names a job kind that is not built in, or lacks a gate that it needs."""


def build_registry(config: Configuration, *others: SupportedKind) -> IntegrationRegistry:
    """Return the kinds that the Configuration enables, in the order of the table.

    Kinds of upstream that do not exist here are left out; loading the Configuration warns of them.

    Args:
        config: The Configuration.
        others: Kinds that are not built in.

    Raises:
        UnknownFrameworkError: it names a kind that upstream does not have, either.
    """
    enabled = enabled_kinds(config)
    return IntegrationRegistry([*map(load_kind, enabled), *others])


def enabled_kinds(config: Configuration) -> tuple[KnownKind, ...]:
    """Return the rows of the kinds to queue: those named, and pods if a named kind needs them.

    Raises:
        UnknownFrameworkError: see `build_registry`.
    """
    named = frozenset(config.integrations.frameworks)
    for name in config.integrations.frameworks:
        if name not in KNOWN_FRAMEWORKS:
            known = ", ".join(sorted(KNOWN_FRAMEWORKS))
            raise UnknownFrameworkError(
                f'integrations.frameworks: "{name}" is not supported; known are: {known}'
            )
    rows = [row for row in JOB_KINDS if row.folder and row.framework in named]
    return tuple(_with_pods(rows, config))


def enabled_frameworks(config: Configuration) -> frozenset[str]:
    """Return the names of the kinds that the Configuration enables; unknown names are left out."""
    return frozenset(row.framework for row in JOB_KINDS if row.folder) & {
        *config.integrations.frameworks,
        *(
            "pod"
            for row in JOB_KINDS
            if row.implies_pods and row.framework in config.integrations.frameworks
        ),
    }


def load_kind(row: KnownKind) -> SupportedKind:
    """Import a kind's folder and build what it has; kinds that are not enabled are not imported."""
    built: SupportedKind = import_module(f"multiqueue.jobs.{row.folder}").build(row)
    return built


def list_remote_kinds() -> Sequence[SupportedKind]:
    """Return all built-in kinds that can run on workers, enabled or not."""
    built = (load_kind(row) for row in JOB_KINDS if row.folder)
    return [kind for kind in built if kind.adapter is not None]


def _with_pods(rows: list[KnownKind], config: Configuration) -> Iterator[KnownKind]:
    for row in rows:
        if row.gate and not config.gates.enabled(Gate(row.gate)):
            raise UnknownFrameworkError(
                f'integrations.frameworks: "{row.framework}" needs the feature gate {row.gate}'
            )
        yield row
    names = {row.framework for row in rows}
    if "pod" not in names and any(row.implies_pods for row in rows):
        yield from (row for row in JOB_KINDS if row.framework == "pod" and row.folder)
