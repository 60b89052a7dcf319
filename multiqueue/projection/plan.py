"""Plans the steps from a worker's objects to the declared ones, and lists what must stay.

After a plan has been applied, the next plan has no more steps, except for what is held back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from multiqueue.api.names import PROJECTED_FROM
from multiqueue.api.validation.access import Object, text
from multiqueue.lint.world import LintInput, Sight, labels_of, name_of, namespace_of
from multiqueue.projection.desired import Desired
from multiqueue.projection.differences import FieldDifference, find_differences
from multiqueue.projection.fleet import PROJECTED_KINDS
from multiqueue.projection.in_use import Key, find_users, key_of


class SyncAction(StrEnum):
    """The action of a step."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class HeldReason(StrEnum):
    """Why an object stays as it is."""

    NOT_OURS = "NotOurs"
    IN_USE = "InUse"
    NEVER_DELETED = "NeverDeleted"
    IMMUTABLE = "Immutable"
    UNSEEN = "Unseen"
    UNCLEAR = "Unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStep:
    """One write.

    Attributes:
        obj: The manifest; for a deletion the existing object.
        actual: The existing object; None for a creation.
        takes_over: Whether the object belonged to another owner until now.
    """

    action: SyncAction
    obj: Object
    actual: Object | None = None
    differences: tuple[FieldDifference, ...] = ()
    takes_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An object that should change but stays as it is."""

    obj: Object
    reason: HeldReason
    message: str
    actual: Object | None = None
    differences: tuple[FieldDifference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """The steps, in the order in which they must be done.

    Attributes:
        in_step: How many objects are as declared already.
        left_over: Objects with our label that are no longer declared, whether they go or stay.
        problems: Problems of the declaration.
    """

    steps: tuple[SyncStep, ...] = ()
    held: tuple[Held, ...] = ()
    in_step: int = 0
    left_over: tuple[Object, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user allows.

    Attributes:
        origin: The value of our label.
        force: Whether to take over objects of other owners.
        prune: Whether to delete objects with our label that are neither declared nor in use.
    """

    origin: str
    force: bool = False
    prune: bool = False


@dataclass(slots=True)
class _Draft:
    steps: list[SyncStep] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    after: dict[Key, Object] = field(default_factory=dict)
    in_step: int = 0


def make_plan(desired: Desired, there: LintInput, options: Options) -> SyncPlan:
    """Compare the declaration with the worker, and order the steps; pure."""
    draft = _Draft(
        after={key_of(obj): obj for kind in PROJECTED_KINDS for obj in there.all(kind)},
    )
    for obj in desired.objects:
        _plan_one(obj, there, options, draft, is_whole=obj["kind"] in desired.closed)
    wanted = {key_of(obj) for obj in desired.objects}
    left_over = tuple(
        obj
        for obj in _ours(there, options.origin)
        if key_of(obj) not in wanted and obj["kind"] in desired.closed
    )
    if options.prune:
        _prune(left_over, there, draft, unclear=_why_unclear(desired, there))
    return SyncPlan(
        steps=tuple(draft.steps),
        held=tuple(draft.held),
        in_step=draft.in_step,
        left_over=left_over,
        problems=desired.problems,
    )


def owner_of(obj: Object) -> str:
    """Return the label value of the manager that projected an object; empty if none did."""
    return labels_of(obj).get(PROJECTED_FROM, "")


def title_of(obj: Object) -> str:
    """Return an object's title: ``LocalQueue "research/research"``."""
    name = "/".join(filter(None, (namespace_of(obj), name_of(obj))))
    return f'{text(obj.get("kind"))} "{name}"'


def _plan_one(
    obj: Object, there: LintInput, options: Options, draft: _Draft, *, is_whole: bool
) -> None:
    kind = text(obj.get("kind"))
    actual = there.get(kind, name_of(obj), namespace_of(obj))
    if actual is None and there.sight(kind) is not Sight.ALL:
        message = "these credentials may not list them, or they are not served"
        draft.held.append(Held(obj=obj, reason=HeldReason.UNSEEN, message=message))
        return
    differences: tuple[FieldDifference, ...] = ()
    if actual is not None:
        differences = find_differences(obj, actual, is_whole=is_whole)
    if actual is not None and not differences:
        draft.in_step += 1
        return
    foreign = actual is not None and owner_of(actual) != options.origin
    why = _why_held(obj, actual, differences, forbidden=foreign and not options.force)
    if not is_whole:
        why = HeldReason.UNCLEAR, "what the fleet file says of it is not known; pass it with -f"
    if why is not None:
        reason, message = why
        draft.held.append(
            Held(obj=obj, actual=actual, reason=reason, message=message, differences=differences)
        )
        return
    action = SyncAction.CREATE if actual is None else SyncAction.UPDATE
    draft.steps.append(
        SyncStep(action=action, obj=obj, actual=actual, differences=differences, takes_over=foreign)
    )
    draft.after[key_of(obj)] = obj


def _why_held(
    obj: Object,
    actual: Object | None,
    differences: Sequence[FieldDifference],
    *,
    forbidden: bool,
) -> tuple[HeldReason, str] | None:
    if actual is None:
        return None
    if forbidden:
        return HeldReason.NOT_OURS, _whose(actual)
    if obj["kind"] == "LocalQueue" and any(d.path == "spec.clusterQueue" for d in differences):
        return (
            HeldReason.IMMUTABLE,
            "where a LocalQueue leads never changes; delete it once no Workload is in it",
        )
    return None


def _whose(actual: Object) -> str:
    if owner_of(actual):
        return "another manager projects it; --force takes it over"
    return "it was not made by sync; change it yourself, or --force takes it over"


def _ours(there: LintInput, origin: str) -> Iterator[Object]:
    for kind in PROJECTED_KINDS:
        yield from (obj for obj in there.all(kind) if owner_of(obj) == origin)


def _why_unclear(desired: Desired, there: LintInput) -> str:
    """Return why nothing can be deleted safely; empty if it can."""
    if desired.problems:
        return "what is declared is not clear (see the problems)"
    unseen = [kind for kind in PROJECTED_KINDS if there.sight(kind) is not Sight.ALL]
    return f"{', '.join(unseen)} of the worker could not be read" if unseen else ""


def _prune(left_over: Sequence[Object], there: LintInput, draft: _Draft, *, unclear: str) -> None:
    """Delete users before the objects they use; a queue that stays keeps its flavors."""
    for obj in _users_first(left_over):
        why = _why_kept(obj, there, draft, unclear)
        if why is not None:
            reason, message = why
            draft.held.append(Held(obj=obj, actual=obj, reason=reason, message=message))
            continue
        draft.steps.append(SyncStep(action=SyncAction.DELETE, obj=obj, actual=obj))
        del draft.after[key_of(obj)]


def _why_kept(
    obj: Object, there: LintInput, draft: _Draft, unclear: str
) -> tuple[HeldReason, str] | None:
    if unclear:
        return HeldReason.UNCLEAR, unclear
    if obj["kind"] == "Namespace":
        message = "namespaces are not deleted, since all that is in them would go, too"
        return HeldReason.NEVER_DELETED, message
    users = find_users(obj, draft.after.values(), there)
    return (HeldReason.IN_USE, f"in use by {users}") if users else None


def _users_first(objects: Iterable[Object]) -> list[Object]:
    order: Mapping[str, int] = {kind: -i for i, kind in enumerate(PROJECTED_KINDS)}
    return sorted(objects, key=lambda obj: (order[text(obj.get("kind"))], key_of(obj)))
