"""Fits now, waits, or never: with the numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiqueue.plugins import (
    ClusterView,
    Fit,
    FlavorView,
    Grade,
    Outlook,
    PodSetView,
    QueueView,
    QuotaView,
    ResourceGroupView,
    WorkloadView,
    find_refusal,
    judge,
    place,
    scarce_resource,
)
from multiqueue.plugins.testing import (
    GPU,
    T0,
    make_cluster,
    make_lost_cluster,
    make_queue,
    make_unknown_cluster,
    make_workload,
)


def make_gang(*pod_sets: PodSetView) -> WorkloadView:
    return WorkloadView(key="team-a/gang", queue="gpus", created_at=T0, pod_sets=pod_sets)


def make_pods(name: str = "main", count: int = 1, **requests: int) -> PodSetView:
    named = {GPU if key == "gpu" else key: value for key, value in requests.items()}
    return PodSetView(name=name, count=count, requests=named)


def make_two_flavors(a: int, b: int, **cpu: int) -> QueueView:
    quotas = {
        (name, GPU): QuotaView(nominal=size, available=size, most=size)
        for name, size in (("a", a), ("b", b))
    }
    quotas |= {("c", r): QuotaView(nominal=n, available=n, most=n) for r, n in cpu.items()}
    groups = [ResourceGroupView(resources=(GPU,), flavors=("a", "b"))]
    if cpu:
        groups.append(ResourceGroupView(resources=tuple(cpu), flavors=("c",)))
    flavors = {name: FlavorView(name=name) for name in ("a", "b", "c")}
    return QueueView(name="cq", groups=tuple(groups), flavors=flavors, quotas=quotas)


def judge_queue(workload: WorkloadView, queue: QueueView) -> Fit:
    return judge(workload, ClusterView(name="w", queue=queue))


@pytest.mark.parametrize(
    ("cluster", "outlook", "reason"),
    [
        (make_cluster(gpus=8), Outlook.FITS, "fits: 4 of 8 free nvidia.com/gpu"),
        (make_cluster(used=6), Outlook.WAITS, "waits: 4 nvidia.com/gpu asked, 2 free"),
        (make_cluster(gpus=2), Outlook.NEVER, "has at most 2 nvidia.com/gpu, 4 asked"),
        (make_lost_cluster(), Outlook.UNAVAILABLE, "is not connected"),
        (make_unknown_cluster(), Outlook.UNKNOWN, "its queues cannot be read"),
        (
            replace(make_cluster(), queue=None),
            Outlook.UNAVAILABLE,
            'has no LocalQueue "gpus" in namespace "team-a"',
        ),
        (
            replace(make_cluster(), queue=make_queue(active=False)),
            Outlook.UNAVAILABLE,
            'ClusterQueue "gpus" is inactive: stopped',
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ClusterView) else str(value),
)
def test_every_outlook_has_its_reason(cluster, outlook, reason):
    got = judge(make_workload(gpus=4), cluster)
    assert (got.outlook, got.reason) == (outlook, reason)


def test_what_is_left_over_is_counted_in_the_flavors_used():
    fit = judge_queue(make_gang(make_pods(gpu=3)), make_two_flavors(4, 8))
    assert (fit.outlook, fit.spare) == (Outlook.FITS, 1)


def test_pod_sets_may_take_different_flavors_but_one_never_two():
    queue = make_two_flavors(4, 4)
    assert judge_queue(make_gang(make_pods("x", gpu=3), make_pods("y", gpu=3)), queue).outlook is (
        Outlook.FITS
    )
    assert judge_queue(make_gang(make_pods(gpu=6)), queue).outlook is Outlook.NEVER


def test_pod_sets_that_fit_one_by_one_but_not_together_never_fit():
    fit = judge_queue(make_gang(*(make_pods(n, gpu=4) for n in "xyz")), make_two_flavors(4, 4))
    assert fit.reason == "has at most 8 nvidia.com/gpu, 12 asked"


def test_a_gang_that_may_shrink_fits_where_its_least_does():
    shrinking = PodSetView(count=10, min_count=4, requests={GPU: 1})
    assert judge_queue(make_gang(shrinking), make_two_flavors(8, 0)).outlook is Outlook.WAITS


def test_demand_is_measured_against_what_the_queue_could_hold():
    queue = replace(make_queue(gpus=8, used=8, in_flight=2), backlog={GPU: 2})
    fit = judge_queue(make_workload(gpus=4), queue)
    assert (fit.outlook, fit.load_permille) == (Outlook.WAITS, 2000)


def test_every_resource_counts_and_the_short_one_is_named():
    queue = make_two_flavors(8, 0, cpu=4000)
    fit = judge_queue(make_gang(make_pods(gpu=1, cpu=3000, count=1)), queue)
    assert fit.outlook is Outlook.FITS
    quotas = {**queue.quotas, ("c", "cpu"): QuotaView(nominal=4000, available=1500, most=4000)}
    short = judge_queue(make_gang(make_pods(gpu=1, cpu=3000)), replace(queue, quotas=quotas))
    assert short.reason == "waits: 3 cpu asked, 1500m free"


def test_pods_that_fit_one_by_one_but_not_side_by_side_wait():
    queue = make_two_flavors(4, 4)
    fit = judge_queue(make_gang(*(make_pods(n, gpu=3) for n in "ab"), make_pods("c", gpu=2)), queue)
    assert fit.outlook is Outlook.WAITS
    assert fit.reason == "waits: 8 nvidia.com/gpu asked, 8 free"


def test_a_device_that_a_worker_has_not_is_never_and_cpu_is_unknown():
    queue = make_queue()
    fit = judge_queue(make_gang(PodSetView(requests={"amd.com/gpu": 1})), queue)
    assert fit.reason == "has at most 0 amd.com/gpu, 1 asked"
    fit = judge_queue(make_gang(make_pods(gpu=1, cpu=1000)), queue)
    assert (fit.outlook, fit.reason) == (Outlook.UNKNOWN, 'ClusterQueue "gpus" covers no cpu')


def test_hardware_that_a_worker_has_not_is_never():
    cluster = make_cluster(labels={"accelerator": "a100"})
    fit = judge(make_workload(node_selector={"accelerator": "h100"}), cluster)
    assert (fit.outlook, fit.reason) == (Outlook.NEVER, "has no flavor for accelerator=h100")


def test_hardware_that_was_asked_for_is_noted_whether_it_fits_or_waits():
    for used in (0, 8):
        cluster = make_cluster(used=used, labels={"accelerator": "h100"})
        assert judge(make_workload(node_selector={"accelerator": "h100"}), cluster).grade is (
            Grade.MATCH
        )


def test_who_asks_for_nothing_fits_everywhere():
    fit = judge_queue(make_gang(PodSetView()), make_queue(used=8))
    assert (fit.outlook, fit.reason) == (Outlook.FITS, "fits")
    assert place(make_gang(), make_queue()).taken == {}


def test_what_matters_is_the_device_asked_for_most():
    assert scarce_resource(make_gang(make_pods(cpu=9, gpu=1))) == GPU
    assert scarce_resource(make_gang(make_pods(cpu=9, memory=2))) == "cpu"
    assert scarce_resource(make_gang()) == ""


class TestRefusal:
    def refusal(self, workload: WorkloadView, *clusters: ClusterView) -> str:
        return find_refusal(workload, {c.name: judge(workload, c) for c in clusters})

    def test_all_too_small_is_told_with_every_number(self):
        got = self.refusal(
            make_workload(gpus=16), make_cluster("h100", gpus=4), make_cluster("a100")
        )
        assert got == "no worker can hold 16 x nvidia.com/gpu: a100 has at most 8, h100 at most 4"

    def test_reasons_of_different_kinds_are_told_side_by_side(self):
        got = self.refusal(
            make_workload(gpus=6, node_selector={"accelerator": "h100"}),
            make_cluster("a", labels={"accelerator": "a100"}),
            make_cluster("b", gpus=4, labels={"accelerator": "h100"}),
        )
        want = (
            "no worker can run this workload: a has no flavor for accelerator=h100; "
            "b has at most 4 nvidia.com/gpu, 6 asked"
        )
        assert got == want

    @pytest.mark.parametrize("other", [make_lost_cluster("x"), make_unknown_cluster("x")])
    def test_one_that_is_not_known_is_reason_enough_to_wait(self, other):
        assert self.refusal(make_workload(gpus=16), make_cluster("a"), other) == ""

    def test_without_clusters_there_is_nothing_to_refuse_for(self):
        assert self.refusal(make_workload(gpus=16)) == ""
