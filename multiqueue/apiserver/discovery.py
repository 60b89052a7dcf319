"""Discovery documents, legacy and aggregated, and the version.

All are plain objects, cheap enough to be made per request; callers may cache them by ``registry.generation``.
"""

from multiqueue.apiserver.kinds import JsonObject, Registry


def api_versions() -> JsonObject:
    """APIVersions, at /api."""
    raise NotImplementedError


def api_group_list(registry: Registry) -> JsonObject:
    """APIGroupList, at /apis."""
    raise NotImplementedError


def api_group(registry: Registry, group: str) -> JsonObject | None:
    """APIGroup, at /apis/<group>; None if not served."""
    raise NotImplementedError


def api_resource_list(registry: Registry, group: str, version: str) -> JsonObject | None:
    """APIResourceList, at /api/v1 and /apis/<group>/<version>; None if not served."""
    raise NotImplementedError


def aggregated(registry: Registry, *, core: bool, version: str) -> JsonObject:
    """APIGroupDiscoveryList, at /api (core) and /apis, of apidiscovery.k8s.io/``version`` (v2 or v2beta1)."""
    raise NotImplementedError


def aggregated_version(accept: str) -> str | None:
    """``v2`` or ``v2beta1`` if the Accept header asks for aggregated discovery first, else None."""
    raise NotImplementedError


def content_type(version: str) -> str:
    """The Content-Type of an aggregated document."""
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def server_version() -> JsonObject:
    """What /version answers."""
    raise NotImplementedError
