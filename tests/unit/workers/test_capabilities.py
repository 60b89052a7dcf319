"""What is published of a worker."""

from __future__ import annotations

from multiqueue.api.v1beta2 import ResourceFlavor
from multiqueue.api.v1beta2.meta import ObjectMeta
from multiqueue.api.v1beta2.resource_flavor import ResourceFlavorSpec
from multiqueue.workers.connections.capabilities import MAX_SHOWN, Discovery, build_capabilities


def flavor(name: str, topology: str | None = None, **labels: str) -> ResourceFlavor:
    spec = ResourceFlavorSpec(node_labels=labels, topology_name=topology)
    return ResourceFlavor(metadata=ObjectMeta(name=name), spec=spec)


def test_flavors_are_shown_with_their_hardware_in_order():
    discovery = Discovery(
        kubernetes="v1.36.2",
        program="kueue",
        versions=("v1beta2", "v1beta1"),
        topologies={"racks": ("rack", "host")},
    )
    got = build_capabilities(
        discovery, ["Job.v1.batch"], [flavor("h100", "racks", gpu="h100"), flavor("a100")]
    )
    assert got == {
        "kubernetes": "v1.36.2",
        "program": "kueue",
        "apiVersions": ["v1beta2", "v1beta1"],
        "kinds": ["Job.v1.batch"],
        "flavors": [
            {"name": "a100", "nodeLabels": {}},
            {"name": "h100", "nodeLabels": {"gpu": "h100"}, "topology": "racks"},
        ],
        "topologies": {"racks": ["rack", "host"]},
    }


def test_a_worker_with_very_many_flavors_does_not_fill_the_config_map():
    flavors = [flavor(f"f{number:03}") for number in range(MAX_SHOWN + 5)]
    got = build_capabilities(Discovery(), [], flavors)
    assert (len(got["flavors"]), got["moreFlavors"]) == (MAX_SHOWN, 5)
    assert "topologies" not in got
