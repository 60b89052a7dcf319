"""The dispatcher that leaves it to somebody else."""

from __future__ import annotations

from multiqueue_dispatchers.external import External

from multiqueue.plugins import ClusterVerdict
from multiqueue.plugins.testing import (
    assert_dispatcher_contract,
    make_cluster,
    make_lost_cluster,
    make_view,
)


def test_it_keeps_the_contract():
    assert_dispatcher_contract(External())


def test_it_follows_what_is_nominated_and_says_what_it_knows_of_it():
    clusters = [make_cluster("a"), make_lost_cluster("b"), make_cluster("c")]
    got = External().nominate(make_view(clusters=clusters, nominated=["c", "b", "moon", "c"]))
    assert got.external
    assert got.clusters == ("c", "b")
    assert ClusterVerdict(cluster="b", nominated=True, reason="is not connected") in got.verdicts
    assert [verdict.cluster for verdict in got.verdicts] == ["b", "c"]


def test_with_nothing_nominated_it_says_who_is_waited_for():
    assert External().nominate(make_view(clusters=[make_cluster("a")])).note == (
        'the controller of dispatcher "external" nominates clusters'
    )
