"""The context of one operation: its user, time and options."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.entry import StoredObject
from multiqueue.embedded.server.kinds import JsonObject
from multiqueue.embedded.server.managed.owners import Owners
from multiqueue.embedded.server.managed.tracking import after_admission, manager_of
from multiqueue.embedded.server.schema import FieldValidation
from multiqueue.embedded.server.store import ObjectStore


@dataclass(slots=True, kw_only=True)
class Call:
    """One operation: its user, time and options. Hooks of kinds get it as their RequestContext."""

    store: ObjectStore
    """The store that hooks read from."""
    user_info: ApiUser
    now: datetime
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    field_manager: str = ""
    """The field manager that the request names, if any."""
    user_agent: str = ""
    warnings: list[str] = field(default_factory=list)
    """Texts for ``Warning: 299`` headers of the answer."""

    @property
    def user(self) -> Mapping[str, Any]:
        """The UserInfo."""
        return self.user_info.as_dict()

    @property
    def manager(self) -> str:
        """Return the field manager of the operation."""
        return self.field_manager or manager_of(self.user_agent)

    def warn(self, text: str) -> None:
        """Add a warning once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def owners_after_admission(self, changed: JsonObject, owners: Owners) -> Owners:
        """Return the field owners after webhooks; invalid ones cause a warning and are ignored."""
        left, warning = after_admission(changed, owners)
        if warning is not None:
            self.warn(warning)
        return left

    def get(
        self, group: str, plural: str, namespace: str | None, name: str
    ) -> Mapping[str, Any] | None:
        """A stored object, in its storage version."""
        entry = self.store.get((group, plural), namespace or "", name)
        return entry.decode() if entry else None

    def list(self, group: str, plural: str, namespace: str | None) -> Iterable[Mapping[str, Any]]:
        """Stored objects, in their storage version."""
        return map(StoredObject.decode, self.store.collection((group, plural)).entries(namespace))
