"""Nodes for a control plane: kube-scheduler places pods there, kwok stands for the kubelets.

A pod is ready at once. One of a Job succeeds after the duration in its annotation RUN_FOR; a
longer one can be ended early by writing a shorter duration.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.controlplane import binaries
from tests.controlplane.plane import RealControlPlane

RUN_FOR = "pod-complete.stage.kwok.x-k8s.io/delay"
JITTER = "pod-complete.stage.kwok.x-k8s.io/jitter-delay"
STAGES = (
    "node/fast/node-initialize.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/general/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
"""Of those that kwok ships: what its simulated kubelets do, and when."""
ENDLESS = tuple(stage for stage in STAGES if "pod-complete" not in stage)
"""The same for pods that never end by themselves."""


def run_for(duration: str) -> dict[str, str]:
    """Annotations of a pod: how long it runs, exactly, as Go writes durations ("2s")."""
    return {RUN_FOR: duration, JITTER: duration}


def make_node(name: str, accelerator: str, *, gpus: int) -> dict[str, Any]:
    """A node as a provider's device plugin leaves it: labelled, tainted, with GPUs."""
    room = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    labels = {"kubernetes.io/hostname": name, "cloud.provider.com/accelerator": accelerator}
    fake = {"kwok.x-k8s.io/node": "fake"}  # where there are real ones, too
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": fake},
        "spec": {
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        },
        "status": {"capacity": room, "allocatable": room},
    }


def add_nodes(
    plane: RealControlPlane, nodes: Sequence[dict[str, Any]], *, stages: Sequence[str] = STAGES
) -> None:
    """Give a control plane these nodes, a scheduler and kubelets; answers when they are ready."""
    credentials = plane.folder / "controllers"
    plane.run(
        "kube-scheduler",
        [
            f"--kubeconfig={credentials}",
            f"--authentication-kubeconfig={credentials}",
            f"--authorization-kubeconfig={credentials}",
            "--secure-port=0",
            "--leader-elect=false",
        ],
    )
    shipped = binaries.module_folder("kwok", "sigs.k8s.io/kwok") / "kustomize" / "stage"
    plane.run(
        "kwok",
        [
            f"--kubeconfig={credentials}",
            "--manage-all-nodes",
            *(f"--config={shipped / stage}" for stage in stages),
        ],
    )
    plane.kubectl("create", "-f", "-", stdin=json.dumps(as_list(nodes)))
    plane.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")


def as_list(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several objects as kubectl takes them at once."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}
