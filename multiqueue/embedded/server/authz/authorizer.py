"""The authorizer: remembers the rules of each subject until a role changes."""

from collections.abc import Iterable
from dataclasses import dataclass

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.authz.attributes import Attributes, refusal
from multiqueue.embedded.server.authz.policy import Grants, Policy
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.watch import Event

MAX_REMEMBERED = 4096
"""Most remembered entries, because reviews may ask for any subject; then all are forgotten."""

Subject = tuple[str, tuple[str, ...], str]
"""Name and groups of a user, and a namespace."""


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Whether something is allowed, and why."""

    allowed: bool
    reason: str = ""


_MASTER = AccessDecision(allowed=True)


class RoleAuthorizer:
    """Authorizes by the roles and bindings of one store.

    Cost: for masters a check of their groups; for others a walk over their rules.
    """

    def __init__(self) -> None:
        self.policy = Policy()
        self._grants: dict[Subject, Grants] = {}

    def load(self, store: ObjectStore) -> None:
        """Load the stored roles and bindings; `observe` follows their changes."""
        self.policy.load(store)
        store.observers.append(self.observe)

    def observe(self, event: Event) -> None:
        """Forget remembered rules if a role or a binding changes."""
        if self.policy.observe(event):
            self._grants.clear()

    def decide(self, user: ApiUser, wanted: Attributes) -> AccessDecision:
        """Decide about a request."""
        if user.is_master:
            return _MASTER
        grants = self.grants(user, wanted.namespace)
        for rule, source in grants.rules:
            if rule.applies_to(wanted):
                return AccessDecision(allowed=True, reason=f"RBAC: allowed by {source}")
        return AccessDecision(allowed=False, reason=_complaint(grants.missing))

    def check(self, user: ApiUser, wanted: Attributes) -> None:
        """Refuse a request that is not allowed.

        Raises:
            StatusError: 403.
        """
        decision = self.decide(user, wanted)
        if not decision.allowed:
            raise refusal(user, wanted, decision.reason)

    def grants(self, user: ApiUser, namespace: str) -> Grants:
        """Return the rules of a user, those of the whole cluster first."""
        subject = (user.name, user.groups, namespace)
        grants = self._grants.get(subject)
        if grants is None:
            if len(self._grants) >= MAX_REMEMBERED:
                self._grants.clear()
            grants = self._grants[subject] = self.policy.grants(user, namespace)
        return grants


def _complaint(missing: Iterable[str]) -> str:
    """Return the problem of bindings that name missing roles; empty if there is none."""
    errors = list(dict.fromkeys(missing))
    if not errors:
        return ""
    return f"RBAC: {join_errors(errors)}"


def join_errors(errors: list[str]) -> str:
    """Errors as Kubernetes joins them."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
