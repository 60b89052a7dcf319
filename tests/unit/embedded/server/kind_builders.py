"""Builders for tests of kinds: a stored world, a custom kind, pods and jobs."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from multiqueue.embedded.server.auth import AUTHENTICATED, MASTERS, ApiUser, TokenAuthenticator
from multiqueue.embedded.server.authz.authorizer import RoleAuthorizer
from multiqueue.embedded.server.authz.signing import create_key
from multiqueue.embedded.server.authz.tokens import ServiceAccountTokens
from multiqueue.embedded.server.builtin.registry import builtin_registry
from multiqueue.embedded.server.causes import FieldCause
from multiqueue.embedded.server.kinds import Kind, KindVersion, Registry
from multiqueue.embedded.server.schema import Admitted, admit
from multiqueue.embedded.server.storage.memory import MemoryStorage
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.validation import validate
from multiqueue.kube.clock import SystemClock

T0 = datetime(2026, 1, 1, tzinfo=UTC)
UID = "11111111-2222-3333-4444-555555555555"


def make_registry() -> Registry:
    """The built-in kinds of a server that knows nobody."""
    tokens = ServiceAccountTokens(
        ObjectStore(MemoryStorage(), history_length=1), SystemClock(), create_key()
    )
    return builtin_registry(TokenAuthenticator({}, tokens), RoleAuthorizer(), tokens)


BUILTIN = make_registry()


class RequestWorld:
    """A RequestContext over given objects."""

    def __init__(self, *objects: Mapping[str, Any]) -> None:
        self.now = T0
        self.user_info = ApiUser("alice", (MASTERS, AUTHENTICATED))
        self.user: Mapping[str, Any] = self.user_info.as_dict()
        self._objects = objects

    def get(
        self, group: str, plural: str, namespace: str | None, name: str
    ) -> Mapping[str, Any] | None:
        found = self.list(group, plural, namespace)
        return next((obj for obj in found if obj["metadata"]["name"] == name), None)

    def list(self, group: str, plural: str, namespace: str | None) -> Iterable[Mapping[str, Any]]:
        kind = BUILTIN.get(group, plural)
        assert kind is not None
        return [
            obj
            for obj in self._objects
            if obj["kind"] == kind.kind and namespace in {None, obj["metadata"].get("namespace")}
        ]


def kind_of(group: str, plural: str) -> Kind:
    kind = BUILTIN.get(group, plural)
    assert kind is not None
    return kind


def admitted(group: str, plural: str, obj: Mapping[str, Any], **options: Any) -> Admitted:
    """A body as the server decodes it."""
    kind = kind_of(group, plural)
    return admit(kind, kind.versions[0], obj, **options)


def created(group: str, plural: str, obj: Mapping[str, Any], *world: Mapping[str, Any]) -> Any:
    """A body as it is after a create, without looking at its validity."""
    kind = kind_of(group, plural)
    body = {**obj, "metadata": {"name": "a", **obj.get("metadata", {}), "uid": UID}}
    result = admitted(group, plural, body)
    assert result.bad_request is None, result.bad_request
    kind.hooks.prepare_create(result.obj, RequestWorld(*world))
    return result.obj


def create_causes(
    group: str, plural: str, obj: Mapping[str, Any], *world: Mapping[str, Any]
) -> list[FieldCause]:
    """What is wrong with a body that is to be created."""
    kind = kind_of(group, plural)
    obj = created(group, plural, obj, *world)
    return validate(kind, kind.versions[0], obj, None, RequestWorld(*world))


def update_causes(
    group: str, plural: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[FieldCause]:
    """What is wrong with changing a stored object (made by ``created``) into another."""
    kind = kind_of(group, plural)
    clean = admitted(group, plural, new).obj
    return validate(kind, kind.versions[0], clean, old, RequestWorld())


def texts(causes: Iterable[FieldCause]) -> list[str]:
    return [str(cause) for cause in causes]


def fields(causes: Iterable[FieldCause]) -> list[str]:
    return [cause.field for cause in causes]


def custom_kind(schema: Mapping[str, Any], **version: Any) -> Kind:
    """A custom kind whose spec has this schema."""
    root = {"type": "object", "properties": {"spec": schema, "status": {"type": "object"}}}
    return Kind(
        group="example.com",
        plural="widgets",
        singular="widget",
        kind="Widget",
        list_kind="WidgetList",
        namespaced=True,
        versions=(KindVersion(name="v1", schema=root, **version),),
        has_generation=True,
        builtin=False,
    )


def container(**more: Any) -> dict[str, Any]:
    return {"name": "main", "image": "trainer:1", **more}


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"containers": [container()], **spec},
    }


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"template": template, **spec},
    }
