"""Which owner of a job manages it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from multiqueue.api import names
from multiqueue.jobs.framework.ancestors import (
    MAX_DEPTH,
    NestingTooDeepError,
    OwnerNotFoundError,
    find_ancestor,
)
from multiqueue.jobs.framework.gvk import GroupVersionKind

JOB = ("batch/v1", "Job")
JOB_SET = ("jobset.x-k8s.io/v1alpha2", "JobSet")
WRAPPER = ("workload.codeflare.dev/v1beta2", "AppWrapper")
UNKNOWN = ("example.com/v1", "Unknown")


def child(owner: dict[str, Any] | None = None, *, queue: bool = False, **what: Any) -> Any:
    """A job with this owner; ``what`` replaces fields of the reference."""
    metadata: dict[str, Any] = {"name": "child", "namespace": "n", "uid": "child"}
    if queue:
        metadata["labels"] = {names.QUEUE_NAME: "q"}
    if owner is not None:
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        metadata["ownerReferences"] = [{**reference, **what}]
    return {"metadata": metadata}


@dataclass
class Owners:
    """A namespace with owners, and the kinds that are enabled or only known."""

    enabled: tuple[tuple[str, str], ...] = (JOB, JOB_SET, WRAPPER)
    known: tuple[tuple[str, str], ...] = ()
    objects: dict[tuple[str, str], Any] = field(default_factory=dict)

    def make(
        self, kind: tuple[str, str], owner: dict[str, Any] | None = None, *, queue: bool = False
    ) -> dict[str, Any]:
        """Create an owner of this kind, named after its number."""
        body = child(owner, queue=queue)
        number = f"{kind[1].lower()}-{len(self.objects)}"
        body["metadata"].update(name=number, uid=number)
        made = {"apiVersion": kind[0], "kind": kind[1], **body}
        self.objects[kind[1], number] = made
        return made

    def is_known(self, kind: GroupVersionKind) -> bool:
        return self.is_enabled(kind) or (kind.api_version, kind.kind) in self.known

    def is_enabled(self, kind: GroupVersionKind) -> bool:
        return (kind.api_version, kind.kind) in self.enabled

    def find_owner(self, kind: GroupVersionKind, namespace: str, name: str) -> Any:
        assert namespace == "n"
        return self.objects.get((kind.kind, name))


def kind_of_ancestor(job: dict[str, Any], owners: Owners, *, manage_all: bool = False) -> str:
    found = find_ancestor(job, owners, manage_all=manage_all)
    return "none" if found is None else str(found["kind"])


@pytest.mark.parametrize(
    ("set_queue", "wrapper_queue", "manage_all", "want"),
    [
        pytest.param(False, False, False, "none", id="nobody names a queue"),
        pytest.param(True, False, False, "JobSet", id="the owner names one"),
        pytest.param(False, True, False, "AppWrapper", id="the owner's owner names one"),
        pytest.param(True, True, False, "AppWrapper", id="the highest counts"),
        pytest.param(False, False, True, "AppWrapper", id="all jobs are managed"),
    ],
)
def test_the_highest_owner_with_a_queue_manages_a_job(
    *, set_queue: bool, wrapper_queue: bool, manage_all: bool, want: str
) -> None:
    """J-23, J-25."""
    owners = Owners()
    job_set = owners.make(JOB_SET, owners.make(WRAPPER, queue=wrapper_queue), queue=set_queue)
    job = child(job_set, queue=True)
    assert kind_of_ancestor(job, owners, manage_all=manage_all) == want


def test_an_owner_of_a_disabled_kind_is_passed_and_never_chosen() -> None:
    owners = Owners(enabled=(JOB, WRAPPER), known=(JOB_SET,))
    above = child(owners.make(JOB_SET, owners.make(WRAPPER, queue=True), queue=True))
    assert kind_of_ancestor(above, owners) == "AppWrapper"
    assert kind_of_ancestor(child(owners.make(JOB_SET, queue=True)), owners) == "none"


def test_the_search_ends_at_a_kind_that_nobody_knows() -> None:
    """J-24."""
    owners = Owners()
    unknown = owners.make(UNKNOWN, owners.make(WRAPPER, queue=True), queue=True)
    assert kind_of_ancestor(child(unknown), owners) == "none"
    older = child(owners.make(JOB_SET, queue=True), apiVersion="jobset.x-k8s.io/v1alpha1")
    assert kind_of_ancestor(older, owners) == "none"


def test_the_search_ends_at_another_object_of_the_name() -> None:
    """J-26."""
    owners = Owners()
    job_set = owners.make(JOB_SET, owners.make(WRAPPER, queue=True), queue=True)
    assert kind_of_ancestor(child(job_set, uid="an earlier one"), owners) == "none"


def test_only_the_controller_counts() -> None:
    owners = Owners()
    job_set = owners.make(JOB_SET, queue=True)
    assert kind_of_ancestor(child(job_set, controller=False), owners) == "none"


def test_an_owner_that_is_gone_is_named() -> None:
    owners = Owners()
    job = child(owners.make(JOB_SET, queue=True))
    owners.objects.clear()
    with pytest.raises(OwnerNotFoundError, match='JobSet "jobset-0", which owns the job'):
        find_ancestor(job, owners, manage_all=False)


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1])
def test_deep_nesting_ends_the_search(depth: int) -> None:
    """J-27."""
    owners = Owners()
    above = owners.make(WRAPPER, queue=True)
    for _ in range(depth - 1):
        above = owners.make(WRAPPER, above)
    if depth <= MAX_DEPTH:
        assert kind_of_ancestor(child(above), owners) == "AppWrapper"
        return
    with pytest.raises(NestingTooDeepError, match="exceeded limit of 10"):
        find_ancestor(child(above), owners, manage_all=False)


def test_owners_that_own_each_other_end_the_search() -> None:
    owners = Owners()
    first = owners.make(WRAPPER, queue=True)
    second = owners.make(WRAPPER, first)
    first["metadata"]["ownerReferences"] = child(second)["metadata"]["ownerReferences"]
    with pytest.raises(NestingTooDeepError):
        find_ancestor(child(first), owners, manage_all=False)
