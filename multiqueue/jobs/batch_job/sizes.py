"""The number of pods that a Job runs with, and the number that its user requested. Pure.

A Job with alternatives that was started with fewer pods has an annotation with the requested
number. So it requests all pods again once it is suspended, whoever suspends it and whatever happens
to its Workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from multiqueue.api import names
from multiqueue.api.alternatives import find_alternatives
from multiqueue.jobs.framework.integration import Job

_RUNS_WITH = re.compile(r"([0-9]{1,9}) of ([0-9]{1,9})")


def parallelism_of(job: Job) -> int:
    """Return ``spec.parallelism``, 1 by default."""
    value = job["spec"].get("parallelism")
    return 1 if value is None else int(value)


def completions_of(job: Job) -> int:
    """Return how many pods have to succeed."""
    value = job["spec"].get("completions")
    return parallelism_of(job) if value is None else int(value)


def pod_count(job: Job) -> int:
    """Return how many pods run at a time."""
    return min(parallelism_of(job), completions_of(job))


def sizes_of(job: Job, count: int) -> dict[str, int]:
    """Return the fields that set the number of pods: parallelism, and completions if annotated."""
    sizes = {"parallelism": count}
    if _annotations(job).get(names.JOB_COMPLETIONS_EQUAL_PARALLELISM) == "true":
        sizes["completions"] = count
    return sizes


def as_asked(job: Job) -> Job:
    """Return the job with the numbers that its user requested.

    If its parallelism differs from the number that it was started with, somebody changed it since.
    Without alternatives the number is not ours to change.
    """
    if not find_alternatives(_annotations(job)):
        return job
    told = _RUNS_WITH.fullmatch(_annotations(job).get(names.RUNS_WITH, ""))
    if told is None or int(told[1]) != parallelism_of(job):
        return job
    return {**job, "spec": {**job["spec"], **sizes_of(job, int(told[2]))}}


def resize_patch(job: Job, count: int) -> dict[str, Any]:
    """Return the patch that sets and records the number of pods; empty if nothing changes."""
    asked = as_asked(job)
    fewer = count < pod_count(asked)
    sizes: Mapping[str, Any] = sizes_of(job, count) if fewer else asked["spec"]
    told = f"{count} of {parallelism_of(asked)}" if fewer else None
    patch: dict[str, Any] = {}
    changed = {
        name: sizes[name]
        for name in ("parallelism", "completions")
        if name in sizes and job["spec"].get(name) != sizes[name]
    }
    if changed:
        patch["spec"] = changed
    if told != _annotations(job).get(names.RUNS_WITH):
        patch["metadata"] = {"annotations": {names.RUNS_WITH: told}}
    return patch


def restore_sizes_patch(job: Job) -> dict[str, Any]:
    """Return the patch that restores the number of pods that the user requested."""
    return resize_patch(job, pod_count(as_asked(job)))


def _annotations(job: Job) -> Mapping[str, str]:
    return job["metadata"].get("annotations") or {}
