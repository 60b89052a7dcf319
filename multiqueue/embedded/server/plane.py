"""What every request shares: the kinds, the objects, the rules that apply to all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from multiqueue.embedded.server.auth import Authenticator, User, Verified
from multiqueue.embedded.server.authz.attributes import Audit
from multiqueue.embedded.server.authz.authorizer import Authorizer
from multiqueue.embedded.server.entry import Entry
from multiqueue.embedded.server.kinds import JsonObject, Kind, KindVersion, Registry
from multiqueue.embedded.server.managed.owners import Owners
from multiqueue.embedded.server.managed.tracking import after_admission, manager_of
from multiqueue.embedded.server.schema import FieldValidation
from multiqueue.embedded.server.store import Store
from multiqueue.embedded.server.versions import in_version
from multiqueue.kube.clock import Clock

if TYPE_CHECKING:
    from multiqueue.embedded.server.admission import Admission
    from multiqueue.embedded.server.aggregation.aggregator import Aggregator
    from multiqueue.embedded.server.authz.tokens import ServiceAccountTokens
    from multiqueue.embedded.server.conversion import Conversions
    from multiqueue.embedded.server.pod_logs import PodLog


@dataclass(slots=True, kw_only=True)
class ControlPlane:
    """The parts of a running server that operations on objects need."""

    registry: Registry
    store: Store
    authenticator: Authenticator
    authorizer: Authorizer
    tokens: "ServiceAccountTokens"
    clock: Clock
    admission: "Admission"
    conversions: "Conversions"
    aggregator: "Aggregator"
    pod_log: "PodLog"
    audit: Audit | None = None

    def call(
        self,
        user: User,
        *,
        dry_run: bool = False,
        field_validation: FieldValidation = "Ignore",
        field_manager: str = "",
        user_agent: str = "kube-apiserver",
    ) -> "Call":
        """The context of one operation."""
        return Call(
            plane=self,
            user_info=user,
            now=self.clock.now(),
            dry_run=dry_run,
            field_validation=field_validation,
            field_manager=field_manager,
            user_agent=user_agent,
        )


@dataclass(slots=True, kw_only=True)
class Call:
    """One operation: who asks, when, how; and the RequestContext that hooks of kinds see."""

    plane: ControlPlane
    user_info: User
    now: datetime
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    field_manager: str = ""
    """Who owns what is written, if the request says so."""
    user_agent: str = ""
    warnings: list[str] = field(default_factory=list)
    """Texts for ``Warning: 299`` headers of the answer."""

    @property
    def user(self) -> Mapping[str, Any]:
        """The UserInfo."""
        return self.user_info.as_dict()

    @property
    def manager(self) -> str:
        """Who owns what is written."""
        return self.field_manager or manager_of(self.user_agent)

    def warn(self, text: str) -> None:
        """Add a warning once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def owners_after_admission(self, changed: JsonObject, owners: Owners) -> Owners:
        """The owners of fields that webhooks left; invalid ones are told, and not taken."""
        left, warning = after_admission(changed, owners)
        if warning is not None:
            self.warn(warning)
        return left

    def get(
        self, group: str, plural: str, namespace: str | None, name: str
    ) -> Mapping[str, Any] | None:
        """A stored object, in its storage version."""
        entry = self.plane.store.get((group, plural), namespace or "", name)
        return entry.decode() if entry else None

    def list(self, group: str, plural: str, namespace: str | None) -> Iterable[Mapping[str, Any]]:
        """Stored objects, in their storage version."""
        return map(Entry.decode, self.plane.store.collection((group, plural)).entries(namespace))

    def verify(self, token: str, audiences: Sequence[str]) -> Verified:
        """What a bearer token proves to one of these audiences.

        Raises:
            BadToken: nothing.
        """
        return self.plane.authenticator.verify(token, audiences)

    @property
    def authorizer(self) -> Authorizer:
        """Who may do what."""
        return self.plane.authorizer

    @property
    def tokens(self) -> "ServiceAccountTokens":
        """Issues tokens for ServiceAccounts."""
        return self.plane.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which object or collection an operation is about, and in which version."""

    kind: Kind
    version: KindVersion
    namespace: str = ""
    """Empty for cluster-scoped kinds, and for lists over all namespaces."""
    name: str = ""
    subresource: str = ""

    @property
    def api_version(self) -> str:
        """``batch/v1``."""
        return self.kind.api_version(self.version.name)

    def raw(self, entry: Entry) -> bytes:
        """An object's JSON in this version."""
        return in_version(self.kind, self.version, entry)

    def find(self, call: Call) -> Entry | None:
        """The object."""
        return call.plane.store.get(self.kind.storage_key, self.namespace, self.name)


def target_of(kind: Kind, entry: Entry) -> Target:
    """An object as the server itself addresses it: in its storage version."""
    return Target(
        kind=kind, version=kind.storage_version, namespace=entry.namespace, name=entry.name
    )


def object_of(raw: bytes) -> JsonObject:
    """Decode what :meth:`Target.raw` gave."""
    import orjson

    obj: JsonObject = orjson.loads(raw)
    return obj
