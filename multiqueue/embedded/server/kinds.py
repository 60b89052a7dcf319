"""What the API server serves: one ``Kind`` per (group, plural), built-in or custom.

The HTTP handlers know nothing else about a kind; they call its hooks in this order.

create: ``schema.admit`` (prune, default, refuse wrong types) - ``hooks.prepare_create`` - mutating
webhooks - ``schema.admit`` again if they changed anything - ``schema.validate_create`` - validating
webhooks - store. update: the same with ``prepare_update`` and ``schema.validate_update``;
subresource ``status``: ``prepare_status`` and ``schema.validate_status``. The ``schema.validate_*``
functions call the hooks.
Kinds with ``hooks.respond`` (reviews) are answered at once and never stored.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.causes import FieldCause
from multiqueue.embedded.server.version_order import version_priority

JsonObject = dict[str, Any]
GroupPlural = tuple[str, str]

Cell = Callable[[Mapping[str, Any], datetime], Any]
"""From an object and the time of the request to what a Table shows."""

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class RequestContext(Protocol):
    """What hooks may see of the request and the stored world. Reads come from memory."""

    @property
    def now(self) -> datetime:
        """Time of the request, aware UTC."""

    @property
    def user(self) -> Mapping[str, Any]:
        """``username``, ``uid``, ``groups``, ``extra`` as in a UserInfo."""

    def get(
        self, group: str, plural: str, namespace: str | None, name: str
    ) -> Mapping[str, Any] | None:
        """A stored object, read only."""

    def list(self, group: str, plural: str, namespace: str | None) -> Iterable[Mapping[str, Any]]:
        """Stored objects of a kind (all namespaces if None), read only."""

    @property
    def user_info(self) -> ApiUser:
        """Who asks."""


PrepareCreate = Callable[[JsonObject, RequestContext], None]
PrepareUpdate = Callable[[JsonObject, Mapping[str, Any], RequestContext], None]
ValidateCreate = Callable[[JsonObject, RequestContext], list[FieldCause]]
ValidateUpdate = Callable[[JsonObject, Mapping[str, Any], RequestContext], list[FieldCause]]


def _no_change(_obj: JsonObject) -> None:
    pass


def _no_change_create(_obj: JsonObject, _context: RequestContext) -> None:
    pass


def _no_change_update(_new: JsonObject, _old: Mapping[str, Any], _context: RequestContext) -> None:
    pass


def _no_causes_create(_obj: JsonObject, _context: RequestContext) -> list[FieldCause]:
    return []


def _no_causes_update(
    _new: JsonObject, _old: Mapping[str, Any], _context: RequestContext
) -> list[FieldCause]:
    return []


class AdmissionRefused(Exception):  # noqa: N818 - a refusal, not a failure
    """A ``prepare`` hook refuses the request with 403 Forbidden, as admission plugins do.

    ``str()`` is the bare reason; the handler adds ``<plural>.<group> "<name>" is forbidden:``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What is special about a kind. Hooks change objects of the request's version in place."""

    default: Callable[[JsonObject], None] = _no_change
    """Defaults beyond those in the schema; called by ``schema.admit`` only."""
    prepare_create: PrepareCreate = _no_change_create
    """Resets status, fills what the server owns. May raise AdmissionRefused."""
    prepare_update: PrepareUpdate = _no_change_update
    prepare_status: PrepareUpdate = _no_change_update
    validate_create: ValidateCreate = _no_causes_create
    validate_update: ValidateUpdate = _no_causes_update
    validate_status: ValidateUpdate = _no_causes_update
    warnings: Callable[[JsonObject], list[str]] | None = None
    """Texts for ``Warning: 299`` headers on create and update."""
    respond: Callable[[JsonObject, RequestContext], JsonObject] | None = None
    """If set, the kind is virtual: only POST, answered with this, nothing stored."""


NO_HOOKS = Hooks()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrinterColumn:
    """One column of a Table."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Paths of the scale subresource, as in a CRD: ``.spec.replicas``."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A subresource besides ``status`` and ``scale``, e.g. ``pods/binding``.

    ``apply(object, body, context)`` gives the new state; the handler stores it as an update
    (same generation) and answers with ``answer(new, body)`` if given, else with the object.
    AdmissionRefused means 403, ValueError 409 Conflict. ``deletes``: a POST deletes the object.
    """

    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]
    apply: Callable[[JsonObject, JsonObject, RequestContext], JsonObject] | None = None
    answer: Callable[[JsonObject, JsonObject], JsonObject] | None = None
    deletes: bool = False
    respond: Callable[[JsonObject, JsonObject, RequestContext], JsonObject] | None = None
    """If set, a POST is answered with this and changes nothing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KindVersion:
    """One version of a kind. Hashed by identity, so that its compiled schema can be cached."""

    name: str
    served: bool = True
    storage: bool = True
    deprecated: bool = False
    deprecation_warning: str = ""
    schema: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    )
    columns: tuple[PrinterColumn, ...] = ()
    """Without the leading Name column; empty means Name and Age."""
    leading_name: bool = True
    """False for the rare kind whose Table does not begin with the name (Events)."""
    selectable_fields: Mapping[str, Callable[[Mapping[str, Any]], str]] = field(
        default_factory=dict
    )
    """From a field selector's label to the value; name and namespace always work."""
    has_status: bool = False
    scale: Scale | None = None
    to_storage: Callable[[JsonObject], JsonObject] | None = None
    """From this version to the storage version; None: only apiVersion and kind are replaced."""
    from_storage: Callable[[JsonObject], JsonObject] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Kind:
    """One served kind."""

    group: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    namespaced: bool
    versions: tuple[KindVersion, ...]
    """In order of preference, best first."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    has_generation: bool = False
    """Whether ``metadata.generation`` grows with every change outside metadata and status."""
    name_rule: str = "subdomain"
    """``subdomain``, ``label`` (RFC 1123), ``label1035`` or ``segment`` (any one path segment)."""
    hooks: Hooks = NO_HOOKS
    builtin: bool = True
    verbs: tuple[str, ...] = ALL_VERBS
    put_creates: bool = False
    """Whether a PUT of an object that is not there creates it."""
    put_needs_revision: bool = False
    """Whether a PUT must say which resourceVersion it replaces."""

    @property
    def key(self) -> GroupPlural:
        """(group, plural), unique in a registry."""
        return (self.group, self.plural)

    @property
    def resource(self) -> str:
        """``jobs.batch``, ``pods``: how messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def served_versions(self) -> tuple[KindVersion, ...]:
        """The versions that answer requests."""
        return tuple(version for version in self.versions if version.served)

    @property
    def storage_version(self) -> KindVersion:
        """The version that objects are kept in."""
        return next(version for version in self.versions if version.storage)

    def version(self, name: str) -> KindVersion | None:
        """The served version of this name."""
        return next(
            (version for version in self.versions if version.served and version.name == name), None
        )

    def api_version(self, version: str) -> str:
        """``v1`` or ``batch/v1``."""
        return f"{self.group}/{version}" if self.group else version

    def subresource(self, name: str) -> Subresource | None:
        """A subresource other than status and scale."""
        return next(
            (subresource for subresource in self.subresources if subresource.name == name), None
        )


@dataclass(eq=False, slots=True, weakref_slot=True)
class Registry:
    """All served kinds. ``generation`` grows with every change, for caches."""

    generation: int = 0
    _kinds: dict[GroupPlural, Kind] = field(default_factory=dict)
    _by_kind: dict[tuple[str, str], Kind] = field(default_factory=dict)

    def add(self, kind: Kind) -> None:
        """Serve a kind, or replace the one of the same group and plural."""
        self.remove(kind.group, kind.plural)
        self._kinds[kind.key] = kind
        self._by_kind[kind.group, kind.kind] = kind
        self.generation += 1

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a kind; unknown ones are ignored."""
        kind = self._kinds.pop((group, plural), None)
        if kind is not None:
            self._by_kind.pop((kind.group, kind.kind), None)
            self.generation += 1

    def get(self, group: str, plural: str) -> Kind | None:
        """The kind served at this group and plural."""
        return self._kinds.get((group, plural))

    def by_kind(self, group: str, kind: str) -> Kind | None:
        """The kind of this name, e.g. ("batch", "Job")."""
        return self._by_kind.get((group, kind))

    def __iter__(self) -> Iterator[Kind]:
        return iter(tuple(self._kinds.values()))

    def __len__(self) -> int:
        return len(self._kinds)

    def groups(self) -> list[str]:
        """Group names in the order of discovery: core, built-in, custom; each by name."""
        builtin = dict.fromkeys(kind.group for kind in self._kinds.values() if kind.builtin)
        custom = {kind.group for kind in self._kinds.values() if not kind.builtin} - builtin.keys()
        return [*sorted(builtin), *sorted(custom)]

    def versions(self, group: str) -> list[str]:
        """Served versions of a group, best first (v2, v1, v1beta2, v1beta1, v1alpha1)."""
        names = {
            version.name
            for kind in self._kinds.values()
            if kind.group == group
            for version in kind.served_versions
        }
        return sorted(names, key=version_priority)

    def kinds_in(self, group: str, version: str) -> list[Kind]:
        """Kinds that serve this version, by plural."""
        kinds = (
            kind for kind in self._kinds.values() if kind.group == group and kind.version(version)
        )
        return sorted(kinds, key=lambda kind: kind.plural)
