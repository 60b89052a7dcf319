"""Warnings of the linter at admission: which objects, which changes, how they read."""

from __future__ import annotations

from typing import Any

import pytest

from multiqueue.api.config import Configuration
from multiqueue.api.names import (
    CHECKPOINT_INTERVAL,
    CHECKPOINT_ON,
    CHECKPOINT_SECONDS,
    CLUSTER_NAMES,
    DATA,
    DRAIN,
    MULTIKUEUE_ORIGIN,
    PRICES,
    RESTART,
    RUNTIME,
    SPEEDS,
)
from multiqueue.jobs.setup import build_registry
from multiqueue.lint.catalogue import LOCAL_RULES
from multiqueue.lint.world import OURS, LintInput
from multiqueue.webhooks.advice import advise_by
from multiqueue.webhooks.endpoints import Endpoints, validate_path
from multiqueue.webhooks.review import ReviewRequest
from tests.unit.lint.objects import (
    check,
    cluster_queue,
    flavor,
    job,
    local_queue,
    obj,
    quota,
    world,
)
from tests.unit.webhooks.lookups import Queues

VALIDATE_JOB = "/validate-batch-v1-job"

EVERYTHING = (*OURS, "Namespace")


def warnings_of(
    obj: dict[str, Any],
    *known: dict[str, Any],
    old: dict[str, Any] | None = None,
    subresource: str = "",
) -> list[str]:
    lookup: LintInput = world(*known, config="", complete=EVERYTHING)
    endpoints = Endpoints(
        Queues(), Configuration(), build_registry(Configuration()), advise_by(lookup)
    ).table()
    kind = obj["kind"]
    sent = {key: value for key, value in obj.items() if kind != "Job" or key != "kind"}
    request = ReviewRequest(
        uid="u",
        group="batch" if kind == "Job" else "kueue.x-k8s.io",
        kind=kind,
        subresource=subresource,
        operation="CREATE" if old is None else "UPDATE",
        namespace="n",
        name="x",
        obj=sent,
        old=old or {},
    )
    path = VALIDATE_JOB if kind == "Job" else validate_path(kind)
    return list(endpoints[path](request).warnings)


def test_a_queue_without_its_flavor_is_accepted_with_a_warning() -> None:
    (warning,) = warnings_of(cluster_queue())
    assert warning == (
        "[flavor-missing] spec.resourceGroups[0].flavors[0].name: "
        'ResourceFlavor "f" does not exist; create it, or correct the name'
    )
    assert warnings_of(cluster_queue(), flavor()) == []


def test_both_versions_are_warned_of() -> None:
    old = {**cluster_queue(), "apiVersion": "kueue.x-k8s.io/v1beta1"}
    old["spec"]["cohort"] = "c"
    assert [text.split("]")[0] for text in warnings_of(old, flavor())] == [
        "[lent-and-never-reclaimed"
    ]


def test_a_job_that_can_never_be_admitted_is_warned_of() -> None:
    known = (local_queue(), cluster_queue("cq", quota(nominal="1")), flavor())
    (warning,) = warnings_of(job(requests={"cpu": "2"}), *known)
    assert warning.startswith("[job-too-large] spec.template.spec.containers: needs 2 cpu (1 pods)")
    assert warnings_of(job(), *known) == []


def test_what_may_well_be_meant_is_not_said() -> None:
    queue = cluster_queue(queueingStrategy="StrictFIFO", stopPolicy="Hold")
    assert warnings_of(queue, flavor()) == []


def test_no_field_is_warned_of_twice() -> None:
    bare = check("mk", "kueue.x-k8s.io/multikueue", "")
    del bare["spec"]["parameters"]
    (warning,) = warnings_of(bare)
    assert warning.startswith("spec.parameters: ")


def test_a_limit_without_cohort_is_said_once() -> None:
    (warning,) = warnings_of(cluster_queue("a", quota(borrowingLimit="1")), flavor())
    assert "borrowingLimit" in warning


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        ({}, False),
        ({"status": {"pendingWorkloads": 3}}, False),
        ({"metadata": {"name": "cq", "finalizers": ["x"]}}, False),
        ({"spec": {**cluster_queue()["spec"], "stopPolicy": "Hold"}}, True),
    ],
)
def test_only_changes_of_the_spec_are_news(change: dict[str, Any], *, warned: bool) -> None:
    old = cluster_queue()
    assert bool(warnings_of({**old, **change}, old=old)) is warned


def test_a_status_is_no_news() -> None:
    changed = cluster_queue(stopPolicy="Hold")
    assert warnings_of(changed, old=cluster_queue(), subresource="status") == []


def test_of_a_job_only_another_queue_is_news() -> None:
    known = (local_queue(), cluster_queue("cq", quota(nominal="1")), flavor())
    large = job(requests={"cpu": "2"})
    started = {**large, "spec": {**large["spec"], "suspend": False}}
    assert warnings_of(started, *known, old=large) == []
    moved = job(queue="other", requests={"cpu": "2"})
    assert len(warnings_of(large, *known, old=moved)) == 1


def test_rules_at_admission_ask_for_names_only() -> None:
    class Names:
        """A `Lookup` and nothing more: a rule that wants all objects of a kind fails."""

        config = Configuration()

        def __init__(self, known: LintInput) -> None:
            self.get = known.get
            self.sight = known.sight

    known = (local_queue(), cluster_queue(), flavor(), check("mk", "x", "y"))
    names = Names(world(*known, complete=EVERYTHING))
    subjects = [*known, job()]
    asked = [
        (rule.id, hit.path)
        for rule in LOCAL_RULES
        for subject in subjects
        if subject["kind"] in rule.kinds
        for hit in rule.check(subject, names)
    ]
    assert ("check-controller", "spec.controllerName") in asked


def test_a_drain_that_cannot_be_understood_is_accepted_with_a_warning() -> None:
    known = obj("MultiKueueCluster", "w", {})
    drained = obj("MultiKueueCluster", "w", {})
    drained["metadata"]["annotations"] = {DRAIN: "rate=fast"}
    (warning,) = warnings_of(drained, old=known)
    assert warning == (
        '[worker-drain-unclear] metadata.annotations[multiqueue.dev/drain]: rate "fast": use N/min '
        'or N/h, N from 1 to 9999; correct it, or let "multiqueue clusters drain" write it'
    )
    assert warnings_of(drained, old=drained) == []


def test_what_is_declared_and_cannot_be_read_is_warned_of() -> None:
    said = {RUNTIME: "tomorrow", SPEEDS: "a100=1,h100", DATA: "a,,b", "other": "x"}
    got = warnings_of(job(annotations=said), local_queue(), cluster_queue(), flavor())
    units = 'write a number with a unit, such as "30s" or "1h30m"'
    problems = {
        RUNTIME: f'"tomorrow" is not a duration; {units}',
        SPEEDS: '"h100" is not NAME=NUMBER, such as h100=2.2',
    }
    assert got == [
        f"[declaration-malformed] metadata.annotations[{name}]: {why}; correct it, or leave it out"
        for name, why in problems.items()
    ]
    priced = obj("MultiKueueCluster", "w", {})
    priced["metadata"]["annotations"] = {PRICES: "a100=1.80,h100=4"}
    assert warnings_of(priced, old=obj("MultiKueueCluster", "w", {})) == []
    misspelt = obj("MultiKueueCluster", "w", {})
    misspelt["metadata"]["annotations"] = {PRICES: "a100:1.80"}
    (warning,) = warnings_of(misspelt, old=priced)
    assert '"a100:1.80" is not NAME=NUMBER' in warning


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (CHECKPOINT_INTERVAL, "now and then", "is not a duration"),
        (CHECKPOINT_INTERVAL, "-5m", '"-5m" is not longer than nothing'),
        (CHECKPOINT_ON, "Sometimes", '"Sometimes" is neither "Term" nor "Notice"'),
        (CHECKPOINT_SECONDS, "a minute", '"a minute" is not a whole number of seconds'),
        (CHECKPOINT_SECONDS, "-1", '"-1" is not a whole number of seconds'),
        (RESTART, "2", "is not a duration"),
    ],
)
def test_what_is_said_of_checkpoints_and_cannot_be_read_is_warned_of(
    name: str, value: str, problem: str
) -> None:
    """Such a job counts as one that says nothing."""
    got = warnings_of(job(annotations={name: value}), local_queue(), cluster_queue(), flavor())
    (warning,) = got
    assert warning.startswith(f"[declaration-malformed] metadata.annotations[{name}]: ")
    assert problem in warning


def test_a_job_for_a_worker_that_is_unknown_is_warned_of() -> None:
    known = obj("MultiKueueCluster", "a", {})
    wanted = job()
    wanted["metadata"]["annotations"] = {CLUSTER_NAMES: "a, b"}
    (warning,) = (text for text in warnings_of(wanted, known) if "cluster-unknown" in text)
    assert 'MultiKueueCluster "b" does not exist; correct the name' in warning
    wanted["metadata"]["labels"][MULTIKUEUE_ORIGIN] = "multikueue"
    assert not any("cluster-unknown" in text for text in warnings_of(wanted, known))
