"""A replay preempts as the DisruptionPolicies of the snapshot allow."""

from __future__ import annotations

from typing import Any

from multiqueue.api import names
from multiqueue.api.disruptions import Stop, StopCause, say_stops
from multiqueue.whatif.anonymous import anonymize
from multiqueue.whatif.outcome import ReplayFate as Fate
from multiqueue.whatif.outcome import ReplayOutcome
from multiqueue.whatif.replay import replay
from multiqueue.whatif.snapshot import Snapshot, pack, unpack
from tests.builders.engine import T0, seconds
from tests.unit.whatif.worlds import make_job, make_snapshot

BUDGET = {"name": "calm", "maxWorkloads": 1, "causes": ["Reclaim"]}


def make_reclaim(name: str = "gentle", **spec: Any) -> Snapshot:
    """A borrower that has run for half an hour, and the owner of its quota under a policy."""
    borrower = make_job("training", "borrower", 8, accelerator="a100")
    owner = make_job("research", "owner", 3, accelerator="a100", priority="inference-prod")
    snapshot = make_snapshot(owner, holding=[borrower])
    for queue in snapshot.of("ClusterQueue").values():
        queue["metadata"].setdefault("annotations", {})[names.DISRUPTION_POLICY] = "gentle"
    head = {"apiVersion": names.V1ALPHA1, "kind": "DisruptionPolicy"}
    snapshot.put({**head, "metadata": {"name": name}, "spec": spec})
    return snapshot


def disrupt(snapshot: Snapshot, *, minutes: float, queue: str = "research") -> None:
    """Note that the borrower was stopped once before."""
    stop = Stop(T0 + seconds(3600 - 60 * minutes), StopCause.RECLAIM, 600, queue)
    workloads = snapshot.of("Workload")
    (obj,) = (workloads[key] for key in workloads if "borrower" in key)
    obj["status"]["conditions"].append(
        {
            "type": "multiqueue.dev/Disrupted",
            "status": "True",
            "reason": "Preempted",
            "message": say_stops([stop]),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    )


def fates(outcome: ReplayOutcome) -> dict[str, Fate]:
    return {row.job.partition("/")[2]: row.fate for row in outcome.workloads.values()}


def tell_owner(outcome: ReplayOutcome) -> str:
    return next(row.refusal for row in outcome.workloads.values() if "owner" in row.job)


REFUSED = {"borrower": Fate.KEEPS, "owner": Fate.WAITS}
GRANTED = {"borrower": Fate.STOPS, "owner": Fate.STARTS}


def test_who_has_not_run_for_long_enough_is_not_stopped() -> None:
    got = replay(make_reclaim(protection={"minRun": {"reclaim": "40m"}}))
    assert fates(got) == REFUSED
    assert "minimum run 40m" in tell_owner(got)
    assert fates(replay(make_reclaim(protection={"minRun": {"reclaim": "20m"}}))) == GRANTED


def test_a_policy_that_is_missing_stops_nobody_as_on_the_manager() -> None:
    assert fates(replay(make_reclaim("other"))) == REFUSED
    assert fates(replay(make_reclaim())) == GRANTED


def test_a_budget_counts_the_stops_that_workloads_tell_of() -> None:
    snapshot = make_reclaim(budgets=[BUDGET])
    assert fates(replay(snapshot)) == GRANTED
    disrupt(snapshot, minutes=60)
    kept = unpack(pack(snapshot), "f")
    assert fates(replay(kept)) == REFUSED
    assert 'budget "calm" of DisruptionPolicy "gentle" is used up' in tell_owner(replay(kept))


def test_a_notice_is_told_with_the_stop() -> None:
    snapshot = make_reclaim(notice={"longest": "10m"})
    (key,) = (key for key in snapshot.of("Workload") if "borrower" in key)
    annotations = snapshot.of("Workload")[key]["metadata"].setdefault("annotations", {})
    annotations |= {names.CHECKPOINT_ON: "Notice", names.CHECKPOINT_SECONDS: "300"}
    got = replay(snapshot)
    assert fates(got) == GRANTED
    (stop,) = (row.stop for row in got.workloads.values() if row.stop is not None)
    assert 300 <= stop.notice_seconds <= 600, "with the time until it sees the notice"


def test_an_anonymous_file_has_no_names_of_policies_or_of_who_was_stopped_for() -> None:
    snapshot = make_reclaim(budgets=[BUDGET])
    disrupt(snapshot, minutes=60, queue="a-queue-that-is-gone")
    hidden = anonymize(unpack(pack(snapshot), "f"))
    text = repr(hidden.clusters)
    for name in ("gentle", "calm", "a-queue-that-is-gone", "research"):
        assert name not in text
    assert sorted(fates(replay(hidden)).values()) == sorted(REFUSED.values())
