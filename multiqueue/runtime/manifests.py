"""Apply manifests of any kind: create missing objects, and merge manifests that differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from multiqueue.kube import resources
from multiqueue.kube.client import KubeClient, PatchType
from multiqueue.kube.discovery import find_served_kind
from multiqueue.kube.errors import AlreadyExists, NotFound
from multiqueue.kube.resources import Resource

Object = dict[str, Any]

_KNOWN = {
    (resource.api_version, resource.kind): resource
    for resource in vars(resources).values()
    if isinstance(resource, Resource)
}


class AppliedManifest(StrEnum):
    """The outcome of applying one manifest, in kubectl's words."""

    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """One manifest that was applied."""

    outcome: AppliedManifest
    resource: Resource
    obj: Object


class UnservedKind(Exception):  # noqa: N818 - a fact about a manifest
    """The cluster does not serve the kind of a manifest."""


class Applier:
    """Applies manifests to one cluster; each kind unknown to this program is looked up once.

    Args:
        client: The cluster's client.
        namespace: The namespace of namespaced objects whose manifest names none.
    """

    def __init__(self, client: KubeClient, *, namespace: str = "default") -> None:
        self._client = client
        self._namespace = namespace
        self._found: dict[tuple[str, str], Resource] = {}

    async def apply(self, manifest: Mapping[str, Any]) -> ApplyResult:
        """Create an object, or merge the manifest into the existing one.

        Raises:
            UnknownKind: the cluster does not know the kind.
            KubeError: the cluster refused.
        """
        resource, namespace = await self._locate(manifest)
        name = (manifest.get("metadata") or {}).get("name")
        if name is None:
            return await self._create(resource, manifest, namespace)
        try:
            current: Object = await self._client.get(resource, name, namespace=namespace)
        except NotFound:
            try:
                return await self._create(resource, manifest, namespace)
            except AlreadyExists:
                current = await self._client.get(resource, name, namespace=namespace)
        if contains_fields(current, manifest):
            return ApplyResult(outcome=AppliedManifest.UNCHANGED, resource=resource, obj=current)
        patched: Object = await self._client.patch(
            resource, name, manifest, namespace=namespace, patch_type=_patch_type(resource)
        )
        same = patched["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
        outcome = AppliedManifest.UNCHANGED if same else AppliedManifest.CONFIGURED
        return ApplyResult(outcome=outcome, resource=resource, obj=patched)

    async def try_out(self, manifest: Mapping[str, Any]) -> Object:
        """Return what the server would make of a new object, or the object that exists.

        Raises:
            UnknownKind: the cluster does not know the kind.
            KubeError: the cluster refused.
        """
        resource, namespace = await self._locate(manifest)
        try:
            obj: Object = await self._client.create(
                resource, manifest, namespace=namespace, dry_run=True, strict=True
            )
        except AlreadyExists:
            name = manifest["metadata"]["name"]
            obj = await self._client.get(resource, name, namespace=namespace)
        return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}

    async def create_missing(self, manifest: Mapping[str, Any]) -> None:
        """Create an object unless one with its name exists.

        Raises:
            UnknownKind: the cluster does not know the kind.
            KubeError: the cluster refused.
        """
        resource, namespace = await self._locate(manifest)
        try:
            # The server may refuse a creation before it checks whether the object exists.
            await self._client.get(resource, manifest["metadata"]["name"], namespace=namespace)
        except NotFound:
            await self._create(resource, manifest, namespace)

    async def find_resource(self, api_version: str, kind: str) -> Resource:
        """Return the collection of a kind.

        Raises:
                UnknownKind: the cluster does not serve the kind.
        """
        key = (api_version, kind)
        found = _KNOWN.get(key) or self._found.get(key)
        if found is None:
            found = self._found[key] = await self._discover(api_version, kind)
        return found

    async def _locate(self, manifest: Mapping[str, Any]) -> tuple[Resource, str | None]:
        resource = await self.find_resource(manifest["apiVersion"], manifest["kind"])
        metadata = manifest.get("metadata") or {}
        namespace = (metadata.get("namespace") or self._namespace) if resource.namespaced else None
        return resource, namespace

    async def _create(
        self, resource: Resource, manifest: Mapping[str, Any], namespace: str | None
    ) -> ApplyResult:
        obj: Object = await self._client.create(
            resource, manifest, namespace=namespace, strict=True
        )
        return ApplyResult(outcome=AppliedManifest.CREATED, resource=resource, obj=obj)

    async def _discover(self, api_version: str, kind: str) -> Resource:
        served = await find_served_kind(self._client, api_version, kind)
        if served is None:
            raise UnservedKind(
                f'the cluster serves no kind "{kind}" in "{api_version}"; check apiVersion and '
                "kind, or install its CustomResourceDefinition"
            )
        return served.resource


async def apply_all(client: KubeClient, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Apply manifests in order."""
    applier = Applier(client)
    for manifest in manifests:
        await applier.apply(manifest)


async def create_missing(client: KubeClient, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Create missing objects in order; existing ones stay as they are."""
    applier = Applier(client)
    for manifest in manifests:
        await applier.create_missing(manifest)


def contains_fields(current: Any, wanted: Any) -> bool:
    """Whether an object already has everything in the manifest; defaulted fields are ignored."""
    if isinstance(wanted, Mapping):
        return isinstance(current, Mapping) and all(
            contains_fields(current.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(current, list)
            and len(current) == len(wanted)
            and all(map(contains_fields, current, wanted))
        )
    return bool(current == wanted)


def _patch_type(resource: Resource) -> PatchType:
    """Return the patch type: built-in kinds merge lists by key, custom resources do not."""
    is_builtin = "." not in resource.group or (
        resource.group.endswith(".k8s.io") and not resource.group.endswith(".x-k8s.io")
    )
    return PatchType.STRATEGIC if is_builtin else PatchType.MERGE
