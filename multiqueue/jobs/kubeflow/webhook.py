"""Defaults and rules of Kubeflow's training jobs and of MPIJob. Pure. Parity: J-381, J-408, J-410.

Parity: upstream does not take part in what these kinds' operators check, such as the one master of
a PyTorchJob.
"""

from __future__ import annotations

from multiqueue.api import names
from multiqueue.api.config import Configuration, Gate
from multiqueue.jobs.framework.fields import FieldPath, get_field, set_field
from multiqueue.jobs.framework.integration import Job
from multiqueue.jobs.framework.kind_webhook import TemplateKindWebhook
from multiqueue.jobs.kubeflow.integration import KubeflowJob

_ANNOTATIONS: FieldPath = ("template", "metadata", "annotations")


def build_webhook(kind: KubeflowJob) -> TemplateKindWebhook:
    """Return the webhook of one of these kinds."""
    if kind.gvk.kind == "MPIJob":
        return MPIJobWebhook(kind)
    return TemplateKindWebhook(kind, prebuilt=kind.gvk.kind != "JAXJob", pairs=False)


class MPIJobWebhook(TemplateKindWebhook):
    """The webhook of ``kubeflow.org/mpijob``."""

    def default_more(self, job: Job, config: Configuration) -> Job:
        """Count the ranks of workers from 1 if the launcher works, too (J-408)."""
        replicas: FieldPath = ("spec", "mpiReplicaSpecs")
        launcher, worker = (get_field(job, (*replicas, type_)) for type_ in ("Launcher", "Worker"))
        group = get_field(launcher, (*_ANNOTATIONS, names.PODSET_GROUP_NAME))
        if (
            get_field(job, ("spec", "runLauncherAsWorker")) is not True
            or not config.gates.enabled(Gate.TOPOLOGY_AWARE_SCHEDULING)
            or launcher is None
            or worker is None
            or group is not None
        ):
            return job
        path = (*replicas, "Worker", *_ANNOTATIONS, names.POD_INDEX_OFFSET)
        counted: Job = set_field(job, path, "1")
        return counted
