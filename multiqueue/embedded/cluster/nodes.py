"""The simulated nodes: pools, presets and the text form of ``--nodes``.

Grammar: ``[COUNTx]PRESET[/GPUS][,label=value...]``, for example ``a100/8``, ``2xh100/4,zone=b`` or
``4xcpu``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ACCELERATOR_LABEL = "cloud.provider.com/accelerator"
PRODUCT_LABEL = "nvidia.com/gpu.product"
GPU = "nvidia.com/gpu"

_SPEC = re.compile(
    r"(?:(?P<count>[1-9][0-9]{0,3})x)?(?P<preset>[a-z][a-z0-9]*)(?:/(?P<gpus>[0-9]{1,3}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A machine type. ``gpus`` is the usual number; 0 means that the machine has none."""

    labels: Mapping[str, str]
    allocatable: Mapping[str, str]
    gpus: int = 0


PRESETS: Mapping[str, Preset] = {
    "a100": Preset(
        labels={
            ACCELERATOR_LABEL: "a100",
            PRODUCT_LABEL: "NVIDIA-A100-SXM4-80GB",
            "accelerator": "nvidia",
        },
        allocatable={"cpu": "96", "memory": "1Ti", "ephemeral-storage": "2Ti", "pods": "110"},
        gpus=8,
    ),
    "h100": Preset(
        labels={
            ACCELERATOR_LABEL: "h100",
            PRODUCT_LABEL: "NVIDIA-H100-80GB-HBM3",
            "accelerator": "nvidia",
        },
        allocatable={"cpu": "192", "memory": "2Ti", "ephemeral-storage": "4Ti", "pods": "110"},
        gpus=8,
    ),
    "l4": Preset(
        labels={
            ACCELERATOR_LABEL: "l4",
            PRODUCT_LABEL: "NVIDIA-L4",
            "accelerator": "nvidia",
        },
        allocatable={"cpu": "96", "memory": "384Gi", "ephemeral-storage": "1Ti", "pods": "110"},
        gpus=8,
    ),
    "cpu": Preset(
        labels={},
        allocatable={"cpu": "16", "memory": "64Gi", "ephemeral-storage": "200Gi", "pods": "110"},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """A number of equal nodes, named ``<name>-0``, ``<name>-1`` and so on."""

    name: str
    count: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()


class NodeSpecError(ValueError):
    """A text that is not a node pool; the message says what is allowed."""


def parse_node_pool(text: str) -> NodePool:
    """Return the pool that ``[COUNTx]PRESET[/GPUS][,label=value...]`` describes.

    Raises:
        NodeSpecError: the text does not follow the grammar.
    """
    head, *pairs = text.strip().split(",")
    match = _SPEC.fullmatch(head)
    preset = PRESETS.get(match["preset"]) if match else None
    if match is None or preset is None:
        raise NodeSpecError(
            f'"{text}" is not a node pool; write [COUNTx]PRESET[/GPUS][,label=value...] with '
            f'one of the presets {", ".join(sorted(PRESETS))}, for example "2xa100/8"'
        )
    gpus = int(match["gpus"]) if match["gpus"] is not None else preset.gpus
    allocatable = dict(preset.allocatable)
    if gpus:
        allocatable[GPU] = str(gpus)
    labels = dict(preset.labels)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise NodeSpecError(f'"{text}": "{pair}" is not a label; write key=value')
        labels[key] = value
    return NodePool(
        name=match["preset"], count=int(match["count"] or 1), labels=labels, allocatable=allocatable
    )


def build_nodes(pools: Sequence[NodePool]) -> list[dict[str, Any]]:
    """Return the Node objects of the pools; names stay unique when pools share a name."""
    nodes: list[dict[str, Any]] = []
    next_index: dict[str, int] = {}
    for pool in pools:
        for _ in range(pool.count):
            index = next_index.get(pool.name, 0)
            next_index[pool.name] = index + 1
            nodes.append(_build_node(pool, f"{pool.name}-{index}", address=len(nodes) + 1))
    return nodes


def _build_node(pool: NodePool, name: str, *, address: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"providerID": f"multiqueue-sim://{name}"}
    if pool.taints:
        spec["taints"] = [dict(taint) for taint in pool.taints]
    ip = f"10.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "multiqueue.dev/sim-pool": pool.name,
                **pool.labels,
            },
        },
        "spec": spec,
        "status": {
            "capacity": dict(pool.allocatable),
            "allocatable": dict(pool.allocatable),
            "addresses": [
                {"type": "InternalIP", "address": ip},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": name,
                "containerRuntimeVersion": "multiqueue-sim://1",
                "kernelVersion": "sim",
                "kubeProxyVersion": "v1.32.0-sim",
                "kubeletVersion": "v1.32.0-sim",
                "machineID": name,
                "operatingSystem": "linux",
                "osImage": "multiqueue simulated node",
                "systemUUID": name,
            },
        },
    }
