"""The job kinds of a fleet: what its users submit, and how its players read and change a job.

Every kind that is simulated and can run on workers takes part; a kind of its own is drawn for a run
(`plan_extras`), so that the manager watches at most one collection more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from multiqueue.api import names
from multiqueue.api.job_kinds import JOB_KINDS
from multiqueue.embedded.cluster.simulated_kinds import JobPhase
from multiqueue.jobs.framework.fields import FieldPath, drop_field, get_field, set_field
from multiqueue.jobs.framework.integration import Integration
from multiqueue.jobs.framework.template_kind import TemplateKind
from multiqueue.jobs.setup import load_kind
from tests.builders.jobs import make_gpu_job
from tests.builders.queues import GPU
from tests.fleet.objects import Json
from tests.job_kinds import EXAMPLES, KindExample

JOB = "Job"
ROWS = {row.kind: row for row in JOB_KINDS}
OTHERS: dict[str, KindExample] = {
    each.row.kind: each
    for each in EXAMPLES
    if isinstance(each.kind.integration, TemplateKind) and each.kind.adapter
}
"""The kinds beside batch/v1 Job."""
INTEGRATIONS: dict[str, Integration] = {
    JOB: load_kind(ROWS[JOB]).integration,
    **{name: each.kind.integration for name, each in OTHERS.items()},
}
JOB_PLURALS = frozenset(ROWS[kind].plural for kind in INTEGRATIONS)
"""The collections of all jobs."""


def plural_of(kind: str) -> str:
    """Return the collection of a kind."""
    return ROWS[kind].plural


def has_ended(job: Json) -> bool:
    """Whether a job ended, as its kind says."""
    return INTEGRATIONS[job["kind"]].finished(job) is not None


def is_suspended(job: Json) -> bool:
    """Whether a job may not run."""
    return get_field(job, _suspend_field(job)) is True


def ends_by_itself(job: Json) -> bool:
    """Whether a job of this kind ends; otherwise its user deletes it."""
    return job["kind"] == JOB or OTHERS[job["kind"]].simulated.ends


def status_of(job: Json, phase: JobPhase) -> Json:
    """Return the status that the controller of a kind beside Job writes."""
    return OTHERS[job["kind"]].simulated.status(job["spec"], phase)


def suspend_patch(job: Json, *, value: bool) -> Json:
    """Return what suspends a job or lets it go on, and changes nothing else."""
    patch: Json = set_field({}, _suspend_field(job), value)
    return patch


def make_job(kind: str, name: str, *, gpus: int) -> Json:
    """Return a job as its webhook leaves it: a GPU for each further pod set, as far as they go."""
    if kind == JOB:
        return make_gpu_job(name, gpus=gpus)
    example = OTHERS[kind]
    integration = example.kind.integration
    assert isinstance(integration, TemplateKind)
    assert integration.managed_by_field
    job = orjson.loads(orjson.dumps(example.make(name)))  # its templates share parts
    if example.simulated.objects():
        job = set_field(job, ("spec", "trainer", "resourcesPerNode"), _resources(gpus))
    else:
        first, *others = _containers(job)
        for container in others:
            container["resources"] = _resources(1 if gpus > 1 else 0)
            gpus -= 1 if gpus > 1 else 0
        first["resources"] = _resources(gpus)
    job = set_field(job, integration.managed_by_field, names.MULTIKUEUE_CONTROLLER)
    return integration.set_suspended(job, value=True)


def _resources(gpus: int) -> Json:
    limits = {GPU: str(gpus)} if gpus else {}
    return {"requests": limits, "limits": limits}


def without_manager(job: Json) -> Json:
    """Return a job that its own cluster runs."""
    kind = INTEGRATIONS[job["kind"]]
    field = kind.managed_by_field if isinstance(kind, TemplateKind) else ("spec", "managedBy")
    found: Json = drop_field(job, field or ())
    return found


def list_referenced(kind: str) -> list[Json]:
    """Return the objects that jobs of a kind refer to; their pods request nothing themselves."""
    objects = list(OTHERS[kind].simulated.objects()) if kind != JOB else []
    for obj in objects:
        for container in _containers(obj):
            # The container that a TrainJob's resources are for.
            container |= {"name": "node", "resources": {}}
    return objects


def _suspend_field(job: Json) -> FieldPath:
    kind = INTEGRATIONS[job["kind"]]
    return kind.suspend_field if isinstance(kind, TemplateKind) else ("spec", "suspend")


def _containers(obj: Any) -> Iterator[Json]:
    """Yield the containers of all pod templates, wherever a kind has them, in order."""
    if isinstance(obj, list):
        for each in obj:
            yield from _containers(each)
    elif isinstance(obj, dict):
        for key, value in obj.items():
            yield from value if key == "containers" else _containers(value)
