"""Reads an installation of Kueue from a cluster, from manifests or from values of helm."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from multiqueue.api.names import GROUP, OWN_GROUP
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.validation.access import items, mapping, text
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.leader import ALLOWED
from multiqueue.cli.migration.installation import Installation, name_of
from multiqueue.cli.projection.access import identify
from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import NotFound
from multiqueue.kube.manager_names import DEPLOYMENTS, LEASE
from multiqueue.kube.resources import Resource, resource_of

RBAC, POLICY = "rbac.authorization.k8s.io/v1", "policy/v1"
IN_NAMESPACE: tuple[Resource, ...] = (
    resources.SERVICE_ACCOUNTS,
    resources.CONFIG_MAPS,
    resources.SERVICES,
    resource_of(RBAC, "roles", "Role"),
    resource_of(RBAC, "rolebindings", "RoleBinding"),
    resource_of(POLICY, "poddisruptionbudgets", "PodDisruptionBudget"),
    resource_of("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
    DEPLOYMENTS,
)
"""What an installation has in its namespace, in the order in which it is restored."""
OF_CLUSTER: tuple[Resource, ...] = (
    resources.CRDS,
    resource_of(RBAC, "clusterroles", "ClusterRole", namespaced=False),
    resource_of(RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    resources.MUTATING_WEBHOOKS,
    resources.VALIDATING_WEBHOOKS,
    resources.API_SERVICES,
)
"""What it has in the whole cluster."""


async def read_cluster(client: KubeClient, namespace: str) -> Installation:
    """Read everything that belongs to Kueue. Secrets are not read."""
    objects = [obj async for obj in _read_installation(client, namespace)]
    definitions = [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]
    for definition in definitions:
        resource = _stored_resource(definition)
        # As they are stored, so that this needs no webhook for conversion.
        objects.extend((await client.list(resource)).items)
    return Installation(
        objects=tuple(objects),
        is_live=True,
        holder=await read_holder(client, namespace),
        identity=await identify(client),
    )


async def read_holder(client: KubeClient, namespace: str) -> str:
    """Return who leads; empty if nobody has renewed the Lease within half a minute."""
    try:
        spec = mapping(await client.get(resources.LEASES, LEASE, namespace=namespace), "spec")
    except NotFound:
        return ""
    renewed = parse_time(text(spec.get("renewTime")))
    is_fresh = renewed is not None and datetime.now(UTC) - renewed < ALLOWED
    return text(spec.get("holderIdentity")) if is_fresh else ""


def read_files(source: Path) -> Installation:
    """Read a folder of manifests, or a file of manifests, a Configuration or values of helm.

    Raises:
        UsageProblem: something cannot be read, or nothing of Kueue is there.
    """
    from multiqueue.cli.lint_files import read_sources
    from multiqueue.lib import bounded_yaml

    if source.is_file():
        try:
            documents = bounded_yaml.load_documents(source.read_bytes())
        except (OSError, bounded_yaml.YamlError) as error:
            raise UsageProblem(f'cannot read "{source}": {error}') from error
        (first, *more) = [each.value for each in documents] or [None]
        if isinstance(first, dict) and "kind" not in first and not more:
            return _read_values(first, source)
    entries = read_sources((str(source),)).entries
    found = Installation(objects=tuple(entry.obj for entry in entries), is_live=False)
    return _require(found, source)


def _read_values(values: Mapping[str, Any], source: Path) -> Installation:
    if not {"managerConfig", "controllerManager"} & set(values):
        raise UsageProblem(
            f'"{source}": neither manifests nor values of upstream\'s chart: it has no kind, no '
            "managerConfig and no controllerManager"
        )
    return Installation(objects=(), is_live=False, values=values)


def _require(found: Installation, source: Path) -> Installation:
    kueue = (GROUP, f"config.{GROUP}")
    if not any(_group(obj) in kueue for obj in found.objects) and found.config_text is None:
        raise UsageProblem(f'"{source}": no object of {GROUP} and no configuration is there')
    return found


def _group(obj: Mapping[str, Any]) -> str:
    return text(obj.get("apiVersion")).rpartition("/")[0]


async def _read_installation(client: KubeClient, namespace: str) -> AsyncIterator[dict[str, Any]]:
    for resource in (*OF_CLUSTER, *IN_NAMESPACE):
        where = namespace if resource.namespaced else None
        is_part = _IS_PART.get(resource.kind, _is_named)
        for obj in (await client.list(resource, namespace=where)).items:
            if is_part(obj):
                yield obj


def _is_named(obj: Mapping[str, Any]) -> bool:
    return name_of(obj).startswith("kueue-")


def _is_kueue_definition(obj: Mapping[str, Any]) -> bool:
    return text(mapping(obj, "spec").get("group")) in {GROUP, OWN_GROUP}


def _is_kueue_api(obj: Mapping[str, Any]) -> bool:
    group = text(mapping(obj, "spec").get("group"))
    return bool(mapping(obj, "spec").get("service")) and group.endswith((GROUP, OWN_GROUP))


_IS_PART: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "CustomResourceDefinition": _is_kueue_definition,
    "APIService": _is_kueue_api,
}


def _stored_resource(definition: Mapping[str, Any]) -> Resource:
    spec = definition["spec"]
    stored = next(v["name"] for _, v in items(spec["versions"]) if v.get("storage"))
    return Resource(
        group=spec["group"],
        version=stored,
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )
