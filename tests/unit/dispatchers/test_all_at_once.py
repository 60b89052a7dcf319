"""Upstream's default."""

from __future__ import annotations

from dataclasses import replace

from multiqueue_dispatchers.all_at_once import AllAtOnce

from multiqueue.plugins import ClusterVerdict
from multiqueue.plugins.testing import (
    assert_dispatcher_contract,
    make_cluster,
    make_lost_cluster,
    make_unknown_cluster,
    make_view,
)


def test_it_keeps_the_contract():
    assert_dispatcher_contract(AllAtOnce())


def test_it_nominates_every_cluster_that_can_be_used_by_name():
    """M-110."""
    full = make_cluster("b", used=8)
    taken = replace(make_cluster("c"), unusable="the name is taken")
    clusters = [make_unknown_cluster("d"), full, taken, make_lost_cluster("a")]
    got = AllAtOnce().nominate(make_view(clusters=clusters))
    assert got.clusters == ("b", "d")
    assert ClusterVerdict(cluster="c", nominated=False, reason="the name is taken") in got.verdicts
