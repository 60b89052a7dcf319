"""How Workloads on the manager may change, and for what cause."""

from __future__ import annotations

import re

from multiqueue.api import names
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.dispatch.decide.copy import epoch_of
from tests.fleet.checkers.checker import SLACK, Checker
from tests.fleet.checkers.words import check_of, find_job, has, new_retry
from tests.fleet.history import Change
from tests.fleet.objects import Json
from tests.fleet.world import HUB


class LatchIsOrderly(Checker):
    """I-2."""

    def on_change(self, change: Change) -> None:
        if change.cluster != HUB or change.plural != "workloads" or change.new is None:
            return
        before = (change.old or {}).get("status") or {}
        after = change.new.get("status") or {}
        old, new = before.get("clusterName"), after.get("clusterName")
        if new and after.get("nominatedClusterNames"):
            self.report(f"{change.key} has a latch and a nomination")
        if new and not old and new not in (before.get("nominatedClusterNames") or ()):
            self.report(f"{change.key} is latched to {new}, which was not nominated")
        if new and old and new != old:
            self.report(f"{change.key} went from {old} to {new} without being sent round")
        if new and not old:
            self._look_at_marks(change.key, self.world.leads_to[new], change.new)

    def _look_at_marks(self, key: str, cluster: str, workload: Json) -> None:
        """What an earlier reservation left on a worker must go before anything there counts.

        If the owner of the worker removed the mark, nothing tells.
        """
        epoch = epoch_of(decode(Workload, workload))
        copy = self.world.workers[cluster].find("workloads", key)
        for what, obj in (("copy", copy), ("job", find_job(self.world, cluster, key))):
            mark = (obj or {"metadata": {}})["metadata"].get("annotations") or {}
            was_edited = (cluster, key) in self.world.truth.blows
            known = {epoch, None} if was_edited else {epoch}
            if obj is not None and mark.get(names.DISPATCH_EPOCH) not in known:
                self.report(f"{key} is latched to {cluster} with a {what} of another reservation")


class CheckGoesItsWay(Checker):
    """I-8."""

    def on_change(self, change: Change) -> None:
        if change.cluster != HUB or change.plural != "workloads":
            return
        before, after = check_of(change.old), check_of(change.new)
        if before is None or after is None or before["state"] == after["state"]:
            if after is not None and after["state"] == "Rejected":
                status = (change.new or {}).get("status") or {}
                if status.get("clusterName") or status.get("nominatedClusterNames"):
                    self.report(f"{change.key} is Rejected and dispatched")
            return
        went = f"{before['state']} to {after['state']}"
        if went == "Ready to Pending" and not has(change.new, "Evicted"):
            self.report(f"{change.key}: the check went from {went} without an eviction")
        if went in {"Retry to Ready", "Rejected to Ready", "Rejected to Retry"}:
            self.report(f"{change.key}: the check went from {went}")
        if after["state"] == "Retry" and "no cluster was recorded" in after.get("message", ""):
            self.report(f"{change.key} was Ready without a latch")


class GraceIsKept(Checker):
    """An outage shorter than the grace evicts nothing."""

    MARGIN = 20.0
    """A worker that answers again for so long in time must have been noticed."""

    def on_change(self, change: Change) -> None:
        message = new_retry(change)
        match = re.search(r'Cluster "([^"]+)".* out of reach', message)
        if match is None:
            return
        cluster = match[1]
        if not self.is_given_up(cluster):
            lost = self.world.truth.lost_for(cluster)
            self.report(f"{change.key}: {cluster} was given up after {lost:.1f} s")
        skews = sum(map(abs, self.world.plan.skews.values()))
        grace = self.world.plan.lost_timeout - skews - SLACK
        calm = self.world.truth.calm_while_lost(cluster, grace)
        if calm >= self.MARGIN:
            self.report(
                f"{change.key}: {cluster} was given up, but was well in time for {calm:.1f} s"
            )


class EvictionsHaveCauses(Checker):
    """What runs is sent round again only if somebody took it away there, or the worker is lost."""

    def on_change(self, change: Change) -> None:
        message = new_retry(change)
        match = re.search(r'was deleted on cluster "([^"]+)"', message)
        if match is not None and (match[1], change.key) not in self.world.truth.blows:
            self.report(f"{change.key}: nobody deleted anything of it on {match[1]}")
