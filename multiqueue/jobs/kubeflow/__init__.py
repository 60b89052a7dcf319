"""The training jobs of Kubeflow (PyTorch, TensorFlow, Paddle, XGBoost, JAX) and MPIJob."""

from __future__ import annotations

from multiqueue.api.job_kinds import KnownKind
from multiqueue.jobs.framework.copy_adapter import CopyAdapter
from multiqueue.jobs.kubeflow.integration import REPLICA_MAPS, KubeflowJob
from multiqueue.jobs.kubeflow.webhook import build_webhook
from multiqueue.jobs.registry import SupportedKind


def build(row: KnownKind) -> SupportedKind:
    """Return what is done for one of these kinds."""
    kind = KubeflowJob(row, REPLICA_MAPS[row.kind])
    adapter = CopyAdapter(kind, success="Succeeded")
    return SupportedKind(integration=kind, webhook=build_webhook(kind), adapter=adapter)
