"""The engine's goals for topologies (issue 3, Speed): placements a second, and how they grow.

Gangs of four kinds come to nodes of which most are in use, and for each that is placed an older
one ends. The cost of a placement may grow with the domains of the levels that it looks at: per
domain of the lowest level it falls.
"""

import random
import sys
from time import perf_counter

import pytest

from multiqueue.engine.tas.forest import Forest
from multiqueue.engine.tas.placement import place_group
from multiqueue.engine.tas.usage import PlacedPods
from tests.topology_world import RACK, make_forest, make_node, make_pods, tree_of

pytestmark = pytest.mark.bench

GANGS = 15_000
CORES = 96
KINDS = (
    make_pods(4, 8, required=RACK),
    make_pods(16, 24, preferred=RACK),
    make_pods(1, 8, unconstrained=True),
    make_pods(64, 8, preferred=RACK),
)


def make_racks(racks: int, hosts: int) -> Forest:
    return make_forest(
        [
            make_node(f"b0-r{r:03}-h{h:03}", CORES, pods=110)
            for r in range(racks)
            for h in range(hosts)
        ]
    )


def churn(forest: Forest, gangs: int) -> tuple[float, int]:
    """Return the seconds that each try took, and how many gangs found no place."""
    order = random.Random(1)  # a fixed mixture
    running: list[str] = []
    refused = 0
    begin = perf_counter()
    for index in range(gangs):
        pods = order.choice(KINDS)
        found = place_group(tree_of(forest), [pods])
        if isinstance(found, dict):
            placed = [PlacedPods("tas", pods.requests, found[pods.name])]
            forest.charge(str(index), placed)
            running.append(str(index))
        else:
            refused += 1
            for _ in range(2):
                forest.release(running.pop(order.randrange(len(running))))
    return (perf_counter() - begin) / gangs, refused


def test_places_gangs_on_640_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    cost, refused = churn(make_racks(10, 64), GANGS)

    with capsys.disabled():
        sys.stdout.write(
            f"\ntopology, 640 nodes, {GANGS} gangs: {1 / cost:,.0f} placements/s, "
            f"{refused} refused\n"
        )
    assert refused
    assert 1 / cost >= 500


def test_cost_grows_no_faster_than_the_domains(capsys: pytest.CaptureFixture[str]) -> None:
    few, _ = churn(make_racks(10, 64), GANGS)
    many, _ = churn(make_racks(100, 100), GANGS)

    with capsys.disabled():
        sys.stdout.write(
            f"\ntopology, 640 to 10,000 nodes: {few * 1e6:.0f} to {many * 1e6:.0f} us a placement\n"
        )
    assert many / few <= 10_000 / 640
