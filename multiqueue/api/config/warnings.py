"""Warnings about a valid configuration: old names, and settings without effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from multiqueue.api.config.gates import GATES, Gate, Stage
from multiqueue.api.config.support import find_inert
from multiqueue.api.config.types import V1BETA1, V1BETA2, Configuration
from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.api.names import GROUP
from multiqueue.api.validation.access import mapping
from multiqueue.lib.words import words

_KINDS = frozenset(
    {".".join(filter(None, (row.kind, row.group))) for row in JOB_KINDS if row.is_queued}
    | {
        f"{kind}.{GROUP}"
        for kind in words(
            "AdmissionCheck ClusterQueue Cohort LocalQueue ResourceFlavor Topology Workload"
        )
    }
)
"""Kinds whose concurrency can be set."""


def find_warnings(raw: Mapping[str, Any], config: Configuration) -> list[str]:
    """Return warnings, each as ``path: problem; advice``.

    Args:
        raw: the parsed file.
        config: the Configuration that was built from it.
    """
    rules = (find_inert, _concurrency, _gates)
    return [*_old_names(raw), *(text for rule in rules for text in rule(config))]


def _old_names(raw: Mapping[str, Any]) -> Iterator[str]:
    if raw.get("apiVersion") == V1BETA1:
        yield f"apiVersion: {V1BETA1} is deprecated; use {V1BETA2}"
    if "queueVisibility" in raw:
        yield "queueVisibility: does nothing; remove it, the visibility API has taken its place"
    if "podOptions" in mapping(raw, "integrations"):
        yield "integrations.podOptions: does nothing; use managedJobsNamespaceSelector"


def _concurrency(config: Configuration) -> Iterator[str]:
    for key in config.controller.group_kind_concurrency:
        if key not in _KINDS:
            yield (
                f"controller.groupKindConcurrency[{key}]: does nothing: there is no controller of "
                f"that kind; there are {', '.join(sorted(_KINDS))}"
            )


def _gates(config: Configuration) -> Iterator[str]:
    for name in config.feature_gates:
        stage = GATES[Gate(name)].stage
        if stage is Stage.DEPRECATED:
            yield f"featureGates.{name}: is deprecated; remove the setting"
        elif stage is Stage.GA:
            yield f"featureGates.{name}: is locked, the setting does nothing; remove it"
