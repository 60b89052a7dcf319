"""The objects of a server, with the services that operations on them need."""

from dataclasses import dataclass

from multiqueue.embedded.server.admission.admission import WebhookAdmission
from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.call import Call
from multiqueue.embedded.server.kinds import Registry
from multiqueue.embedded.server.schema import FieldValidation
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.kube.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The stored objects, their kinds, and who is asked before one of them changes."""

    registry: Registry
    store: ObjectStore
    admission: WebhookAdmission
    clock: Clock

    def call(
        self,
        user: ApiUser,
        *,
        dry_run: bool = False,
        field_validation: FieldValidation = "Ignore",
        field_manager: str = "",
        user_agent: str = "kube-apiserver",
    ) -> Call:
        """The context of one operation."""
        return Call(
            store=self.store,
            user_info=user,
            now=self.clock.now(),
            dry_run=dry_run,
            field_validation=field_validation,
            field_manager=field_manager,
            user_agent=user_agent,
        )
