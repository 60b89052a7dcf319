"""The names of the manager's Lease and Deployment, upstream's and ours."""

from __future__ import annotations

from multiqueue.kube.resources import Resource

LEASE = "c1f6bfd2.kueue.x-k8s.io"
"""The Lease of Kueue's leader, if leader election is on."""
DEPLOYMENT = "kueue-controller-manager"
DEPLOYMENTS = Resource(
    group="apps", version="v1", plural="deployments", kind="Deployment", namespaced=True
)
