"""Jobs that are asked about and not submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multiqueue.api.job_kinds import find_job_kind
from multiqueue.api.names import QUEUE_NAME
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.manifests import read_manifests
from multiqueue.kube.resources import LOCAL_QUEUES

if TYPE_CHECKING:
    from multiqueue.kube.client import KubeClient

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def read_jobs(source: str, queue: str | None, wanted: str | None, default: str) -> list[Json]:
    """Return the jobs of a file, each with its namespace.

    Args:
        source: The file; ``-`` is standard input.
        queue: The LocalQueue of all jobs; by default that of each manifest.
        wanted: The namespace of all jobs; by default that of each manifest.
        default: The namespace of manifests that have none.

    Raises:
        UsageProblem: the file cannot be read, or has no job.
    """
    found = read_manifests(source)
    jobs = [each for each in found if find_job_kind(each["apiVersion"], each["kind"]) is not None]
    if not jobs:
        raise UsageProblem(f'"{source}" has no job of a kind that is built in')
    for job in jobs:
        metadata = job["metadata"] = dict(job.get("metadata") or {})
        metadata["namespace"] = wanted or metadata.get("namespace") or default
        if queue:
            metadata["labels"] = {**(metadata.get("labels") or {}), QUEUE_NAME: queue}
    return jobs


def make_job(gpus: int, queue: str, namespace: str) -> Json:
    """Return a Job of one pod with GPUs."""
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: str(gpus)}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{gpus}-gpus",
            "namespace": namespace,
            "labels": {QUEUE_NAME: queue},
        },
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


async def find_only_queue(client: KubeClient, namespace: str) -> str:
    """Return the name of the only LocalQueue of a namespace.

    Raises:
        UsageProblem: it has none, or several.
    """
    listed = await client.list(LOCAL_QUEUES, namespace=namespace)
    names = sorted(str(each["metadata"]["name"]) for each in listed.items)
    if len(names) != 1:
        known = f"it has {', '.join(names)}" if names else "it has none; name another with -n"
        raise UsageProblem(f'namespace "{namespace}": choose a LocalQueue with --queue; {known}')
    return names[0]
