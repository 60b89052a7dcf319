"""The authorizer: compiles the rules of each subject on first use, until a role changes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.authz.attributes import Attributes, refusal
from multiqueue.embedded.server.authz.policy import Grants, Policy
from multiqueue.embedded.server.store import ObjectStore
from multiqueue.embedded.server.watch import Event

MAX_SUBJECTS = 1024
MAX_ANSWERS = 4096
"""Most cached entries, because reviews may ask for any subject; then the cache is cleared."""

Subject = tuple[str, tuple[str, ...]]
Candidates = tuple[tuple[frozenset[str], str], ...]
"""(names, reason) of the rules that match a request, in order; no names: any object."""


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Whether something is allowed, and why."""

    allowed: bool
    reason: str = ""


@dataclass(slots=True)
class _Compiled:
    """The compiled rules of one subject."""

    grants: dict[str, Grants] = field(default_factory=dict)
    """Grants by namespace."""
    answers: dict[tuple[str, ...], Candidates] = field(default_factory=dict)


_MASTER = AccessDecision(allowed=True)


class RoleAuthorizer:
    """Authorizes by the roles and bindings of one store.

    Cost: for masters a check of their groups; for others a few dictionary lookups, and a walk over
    their rules at the first request of each kind after a role changed.
    """

    def __init__(self) -> None:
        self.policy = Policy()
        self._subjects: dict[Subject, _Compiled] = {}

    def load(self, store: ObjectStore) -> None:
        """Load the stored roles and bindings; `observe` follows their changes."""
        self.policy.load(store)
        store.observers.append(self.observe)

    def observe(self, event: Event) -> None:
        """Forget compiled rules if a role or a binding changes."""
        if self.policy.observe(event):
            self._subjects.clear()

    def decide(self, user: ApiUser, wanted: Attributes) -> AccessDecision:
        """Decide about a request."""
        if user.is_master:
            return _MASTER
        compiled = self._compiled(user)
        for names, source in self._candidates(compiled, user, wanted):
            if not names or wanted.name in names:
                return AccessDecision(allowed=True, reason=f"RBAC: allowed by {source}")
        return AccessDecision(
            allowed=False, reason=_complaint(self.grants(user, wanted.namespace).missing)
        )

    def check(self, user: ApiUser, wanted: Attributes) -> None:
        """Refuse a request that is not allowed.

        Raises:
            StatusError: 403.
        """
        if user.is_master:
            return
        for names, _ in self._candidates(self._compiled(user), user, wanted):
            if not names or wanted.name in names:
                return
        reason = _complaint(self.grants(user, wanted.namespace).missing)
        raise refusal(user, wanted, reason)

    def grants(self, user: ApiUser, namespace: str) -> Grants:
        """Return the rules of a user, those of the whole cluster first."""
        known = self._compiled(user).grants
        grants = known.get(namespace)
        if grants is None:
            if len(known) >= MAX_ANSWERS:
                known.clear()
            grants = known[namespace] = self.policy.grants(user, namespace)
        return grants

    def _compiled(self, user: ApiUser) -> _Compiled:
        key = (user.name, user.groups)
        compiled = self._subjects.get(key)
        if compiled is None:
            if len(self._subjects) >= MAX_SUBJECTS:
                self._subjects.clear()
            compiled = self._subjects[key] = _Compiled()
        return compiled

    def _candidates(self, compiled: _Compiled, user: ApiUser, wanted: Attributes) -> Candidates:
        key = (
            wanted.namespace,
            wanted.verb,
            wanted.group,
            wanted.resource,
            wanted.subresource,
            wanted.path,
        )
        found = compiled.answers.get(key)
        if found is None:
            if len(compiled.answers) >= MAX_ANSWERS:
                compiled.answers.clear()
            found = compiled.answers[key] = tuple(
                (frozenset(() if wanted.path else rule.names), source)
                for rule, source in self.grants(user, wanted.namespace).rules
                if rule.applies_to(wanted)
            )
        return found


def _complaint(missing: Iterable[str]) -> str:
    """Return the problem of bindings that name missing roles; empty if there is none."""
    errors = list(dict.fromkeys(missing))
    if not errors:
        return ""
    return f"RBAC: {join_errors(errors)}"


def join_errors(errors: list[str]) -> str:
    """Errors as Kubernetes joins them."""
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
