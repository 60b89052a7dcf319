"""What a worker's queue has, could borrow, and could ever hold."""

from __future__ import annotations

from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import ClusterQueue, Cohort, ResourceFlavor
from multiqueue.capacity import quota_view
from multiqueue.plugins import QueueView, QuotaView, ResourceGroupView

GPU = "nvidia.com/gpu"
PAIR = ("gpu", GPU)


def make_used_queue(
    name: str = "cq",
    *,
    nominal: int = 8,
    used: int = 0,
    cohort: str = "",
    borrowing: int | None = None,
    lending: int | None = None,
    **fields: object,
) -> ClusterQueue:
    quota: dict[str, object] = {"name": GPU, "nominalQuota": nominal}
    quota |= {"borrowingLimit": borrowing} if borrowing is not None else {}
    quota |= {"lendingLimit": lending} if lending is not None else {}
    groups = [
        {"coveredResources": [GPU], "flavors": [{"name": "gpu", "resources": [quota]}]},
    ]
    usage = [{"name": "gpu", "resources": [{"name": GPU, "total": used}]}]
    return decode(
        ClusterQueue,
        {
            "metadata": {"name": name},
            "spec": {"resourceGroups": groups, "cohortName": cohort, **fields.pop("spec", {})},
            "status": {"flavorsReservation": usage, **fields},
        },
    )


def make_view(queue: ClusterQueue, *others: ClusterQueue, cohorts: tuple = ()) -> QueueView:
    members = [quota_view.read_queue(q) for q in (queue, *others)]
    pools = quota_view.build_pools(members, cohorts) if members[0].queue.cohort else {}
    return quota_view.build_queue_view(members[0], {}, pools)


def test_a_queue_on_its_own_has_what_it_has():
    view = make_view(make_used_queue(used=3, pendingWorkloads=2))
    assert view.quotas == {PAIR: QuotaView(nominal=8, used=3, available=5, most=8)}
    assert view.groups == (ResourceGroupView(resources=(GPU,), flavors=("gpu",)),)
    assert view.pending == 2


def test_a_queue_may_use_what_others_of_its_cohort_do_not():
    view = make_view(
        make_used_queue(cohort="c", used=8), make_used_queue("other", cohort="c", used=2)
    )
    assert view.quotas[PAIR] == QuotaView(nominal=8, used=8, available=6, most=16)


def test_what_others_borrowed_is_not_there():
    view = make_view(make_used_queue(cohort="c"), make_used_queue("other", cohort="c", used=12))
    assert view.quotas[PAIR].available == 4


def test_limits_bound_borrowing_and_lending():
    other = make_used_queue("other", cohort="c", lending=1)
    view = make_view(make_used_queue(cohort="c", borrowing=5), other)
    assert view.quotas[PAIR] == QuotaView(nominal=8, used=0, available=9, most=13)
    keeps = make_view(
        make_used_queue(cohort="c", lending=0, used=2), make_used_queue("other", cohort="c")
    )
    assert keeps.quotas[PAIR].available == 6 + 8


def test_quota_of_the_cohort_itself_counts():
    group = {
        "coveredResources": [GPU],
        "flavors": [{"name": "gpu", "resources": [{"name": GPU, "nominalQuota": "4"}]}],
    }
    cohort = decode(Cohort, {"metadata": {"name": "c"}, "spec": {"resourceGroups": [group]}})
    read = quota_view.read_cohort(cohort)
    view = make_view(make_used_queue(cohort="c"), cohorts=(read,))
    assert view.quotas[PAIR].most == 12


def test_a_tree_has_one_root_and_a_cycle_ends():
    def make(name: str, parent: str):
        return quota_view.read_cohort(
            decode(Cohort, {"metadata": {"name": name}, "spec": {"parentName": parent}})
        )

    cohorts = {
        "a": make("a", "b"),
        "b": make("b", "root"),
        "x": make("x", "y"),
        "y": make("y", "x"),
    }
    assert quota_view.find_root("a", cohorts) == "root"
    assert quota_view.find_root("x", cohorts) in {"x", "y"}


def test_a_queue_that_does_not_admit_says_why():
    condition = {
        "type": "Active",
        "status": "False",
        "reason": "FlavorNotFound",
        "message": "no flavor",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    view = make_view(make_used_queue(conditions=[condition]))
    assert (view.active, view.inactive_reason) == (False, "no flavor")
    stopped = make_view(make_used_queue(spec={"stopPolicy": "Hold"}))
    assert (stopped.active, stopped.inactive_reason) == (False, "it is stopped")


def test_quotas_that_make_no_sense_are_no_queue():
    queue = make_used_queue()
    assert quota_view.read_queue(queue) is not None
    broken = decode(
        ClusterQueue,
        {
            "metadata": {"name": "cq"},
            "spec": {
                "resourceGroups": [
                    {
                        "coveredResources": [GPU],
                        "flavors": [
                            {"name": "gpu", "resources": [{"name": GPU, "nominalQuota": "lots"}]}
                        ],
                    }
                ]
            },
        },
    )
    assert quota_view.read_queue(broken) is None


def test_flavors_bring_their_labels():
    flavor = decode(
        ResourceFlavor, {"metadata": {"name": "gpu"}, "spec": {"nodeLabels": {"a": "h100"}}}
    )
    member = quota_view.read_queue(make_used_queue())
    view = quota_view.build_queue_view(member, {"gpu": flavor}, {})
    assert view.flavors["gpu"].node_labels == {"a": "h100"}


def test_usage_and_flight_change_what_is_free():
    view = make_view(make_used_queue(used=6))
    freed = quota_view.with_usage(view, {PAIR: 4, ("unknown", GPU): 1})
    assert (freed.quotas[PAIR].used, freed.quotas[PAIR].free) == (2, 6)
    flying = quota_view.with_in_flight(freed, {PAIR: 5, ("unknown", GPU): 1})
    assert (flying.quotas[PAIR].in_flight, flying.quotas[PAIR].free) == (5, 1)
