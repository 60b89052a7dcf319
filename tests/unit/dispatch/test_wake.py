"""Which Workloads are looked at when checks and configurations change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from multiqueue.api import v1beta2 as api
from multiqueue.api.conditions import CheckState
from multiqueue.api.config import Configuration
from multiqueue.api.names import (
    GROUP,
    MULTIKUEUE_CONTROLLER,
    WORKLOAD_SLICE_REPLACEMENT_FOR,
)
from multiqueue.api.workload_state import finish
from multiqueue.dispatch.wake.global_queue import GlobalQueue
from multiqueue.dispatch.wake.wake import Wakes
from multiqueue.jobs.context import Informers
from multiqueue.jobs.informers import build_informers
from multiqueue.jobs.setup import build_registry
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.credentials import Credentials
from multiqueue.observability.metrics import ManagerMetrics
from multiqueue.workers.connections.fleet import Fleet
from tests.builders.workloads import evicted, make_workload, reserved, with_checks, with_status
from tests.unit.dispatch.builders import T0


class Woken:
    """The manager's informers, and whom it was told to look at."""

    def __init__(self, informers: Informers, fleet: Fleet) -> None:
        self.informers = informers
        self.keys: list[str] = []
        self._version = 0
        self.wakes = Wakes(
            informers,
            fleet,
            GlobalQueue(lambda _: True),
            integrations=build_registry(Configuration()),
            enqueue=self.keys.append,
            is_known=lambda _: False,
            on_room=lambda: None,
        )

    def change(self, informer: Any, obj: Any, *, uid: str = "one") -> set[str]:
        """Bring a new version of an object; returns who is looked at because of it."""
        self._version += 1
        metadata = msgspec.structs.replace(
            obj.metadata, resource_version=str(self._version), uid=uid
        )
        self.keys.clear()
        informer.observe(msgspec.structs.replace(obj, metadata=metadata))
        return set(self.keys)


@pytest.fixture
async def woken() -> AsyncIterator[Woken]:
    config, clock = Configuration(), SystemClock()
    async with KubeClient(await Credentials.from_kubeconfig_dict(NOWHERE)) as client:
        informers = build_informers(client, config, build_registry(config))
        fleet = Fleet(
            adapters=(),
            origin="multikueue",
            clock=clock,
            metrics=ManagerMetrics(),
        )
        yield Woken(informers, fleet)


NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "u", "user": {}}],
}


def check(
    name: str, *, config: str | None = "all", ours: bool = True, **labels: str
) -> api.AdmissionCheck:
    parameters = None
    if config is not None:
        parameters = api.AdmissionCheckParametersReference(
            api_group=GROUP, kind="MultiKueueConfig", name=config
        )
    return api.AdmissionCheck(
        metadata=api.ObjectMeta(name=name, labels=labels),
        spec=api.AdmissionCheckSpec(
            controller_name=MULTIKUEUE_CONTROLLER if ours else "somebody", parameters=parameters
        ),
    )


def waiting(name: str, **checks: CheckState) -> api.Workload:
    return with_checks(reserved(make_workload(name)), **checks)


def config(name: str, *clusters: str) -> api.MultiKueueConfig:
    return api.MultiKueueConfig(
        metadata=api.ObjectMeta(name=name), spec=api.MultiKueueConfigSpec(clusters=clusters)
    )


async def test_news_of_a_slice_on_a_worker_wake_the_one_that_waits_to_take_over(
    woken: Woken,
) -> None:
    """Also where the one between never had the job; others are left alone (M-48)."""
    two = slice_("two", replaces="one", state=CheckState.RETRY)
    for workload in (
        with_status(two, finish(two.status, "WorkloadSliceReplaced", "over", now=T0)),
        slice_("three", replaces="two", state=CheckState.PENDING),
        slice_("four", replaces="three"),
    ):
        woken.change(woken.informers.workloads, workload, uid=workload.metadata.name)
    woken.keys.clear()
    woken.wakes.on_remote("team-a/one")
    assert woken.keys == ["team-a/one", "team-a/three"]


def slice_(name: str, *, replaces: str, state: CheckState | None = None) -> api.Workload:
    annotations = {WORKLOAD_SLICE_REPLACEMENT_FOR: f"team-a/{replaces}"}
    workload = make_workload(name, annotations=annotations)
    return workload if state is None else with_checks(reserved(workload), mk=state)


async def test_a_new_check_wakes_those_that_list_it(woken: Woken) -> None:
    """M-70."""
    informers = woken.informers
    woken.change(informers.workloads, waiting("a", mk=CheckState.PENDING))
    woken.change(informers.workloads, waiting("b", other=CheckState.PENDING))
    assert woken.change(informers.admission_checks, check("mk")) == {"team-a/a"}
    assert woken.change(informers.admission_checks, check("other", ours=False)) == set()


@pytest.mark.parametrize(("before", "after"), [("all", "some"), (None, "all"), ("all", None)])
async def test_a_check_that_leads_elsewhere_wakes_all_that_list_it(
    woken: Woken, before: str | None, after: str | None
) -> None:
    informers = woken.informers
    woken.change(informers.admission_checks, check("mk", config=before))
    woken.change(informers.admission_checks, check("mk2"))
    for name in ("a", "b"):
        woken.change(informers.workloads, waiting(name, mk=CheckState.PENDING))
    woken.change(informers.workloads, waiting("c", mk2=CheckState.PENDING))
    changed = woken.change(informers.admission_checks, check("mk", config=after))
    assert changed == {"team-a/a", "team-a/b"}


@pytest.mark.parametrize("leads_to", ["all", None])
async def test_a_check_that_leads_where_it_did_wakes_nobody(
    woken: Woken, leads_to: str | None
) -> None:
    informers = woken.informers
    woken.change(informers.admission_checks, check("mk", config=leads_to))
    woken.change(informers.workloads, waiting("a", mk=CheckState.PENDING))
    same = check("mk", config=leads_to, team="x")
    assert woken.change(informers.admission_checks, same) == set()


async def test_a_check_of_somebody_else_wakes_nobody(woken: Woken) -> None:
    """M-2."""
    informers = woken.informers
    woken.change(informers.admission_checks, check("other", ours=False))
    woken.change(informers.workloads, waiting("a", other=CheckState.PENDING))
    moved = check("other", ours=False, config="some")
    assert woken.change(informers.admission_checks, moved) == set()


async def test_other_clusters_wake_what_waits_and_the_same_ones_nobody(woken: Woken) -> None:
    """M-70."""
    informers = woken.informers
    woken.change(informers.multikueue_configs, config("all", "x"))
    woken.change(informers.admission_checks, check("mk"))
    woken.change(informers.workloads, waiting("a", mk=CheckState.PENDING))
    assert woken.change(informers.multikueue_configs, config("all", "x", "y")) == {"team-a/a"}
    assert woken.change(informers.multikueue_configs, config("all", "x", "y")) == set()


async def test_a_configuration_that_is_gone_wakes_what_waits_for_it(woken: Woken) -> None:
    informers = woken.informers
    woken.change(informers.multikueue_configs, config("all", "x"))
    woken.change(informers.admission_checks, check("mk"))
    woken.change(informers.workloads, waiting("a", mk=CheckState.PENDING))
    # A namesake that was made anew is told as the end of the old one and the begin of another.
    woken.change(informers.multikueue_configs, config("all", "x"), uid="another")
    assert woken.keys == ["team-a/a", "team-a/a"]


async def test_one_that_runs_here_again_after_an_eviction_is_none_of_ours(woken: Woken) -> None:
    informers = woken.informers
    here = reserved(make_workload("a"))
    assert woken.change(informers.workloads, here) == set()
    assert woken.change(informers.workloads, evicted(here)) == {"team-a/a"}
    woken.change(informers.workloads, here)
    worker = api.MultiKueueCluster(metadata=api.ObjectMeta(name="x"))
    woken.change(informers.multikueue_clusters, worker)
    labels = api.ObjectMeta(name="x", labels={"tier": "spot"})
    changed = msgspec.structs.replace(worker, metadata=labels)
    assert woken.change(informers.multikueue_clusters, changed) == set()
