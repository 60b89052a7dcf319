"""The ProvisioningRequests of a Workload, in the version that the cluster serves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from multiqueue.api.autoscaling import VERSIONS, ProvisioningRequest
from multiqueue.api.serde import decode
from multiqueue.api.v1beta2 import Workload
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import Forbidden, NotFound
from multiqueue.kube.resources import PROVISIONING_REQUESTS


async def read_requests(client: KubeClient, workload: Workload) -> list[ProvisioningRequest]:
    """Return the requests that a Workload owns; none if they may not be read."""
    for version in VERSIONS:
        try:
            listed = await client.list(
                replace(PROVISIONING_REQUESTS, version=version),
                namespace=workload.metadata.namespace,
                decode=partial(decode, ProvisioningRequest),
            )
        except NotFound:
            continue
        except Forbidden:
            return []
        return [
            request
            for request in listed.items
            if any(o.uid == workload.metadata.uid for o in request.metadata.owner_references)
        ]
    return []
