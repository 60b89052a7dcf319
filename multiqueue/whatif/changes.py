"""The small language of changes to try: ``quota cq/research nvidia.com/gpu=16``. Pure.

Each change edits the objects of a snapshot as an operator would edit them on the cluster.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from multiqueue.api import names
from multiqueue.api.conditions import Reason
from multiqueue.api.serde import encode
from multiqueue.api.workload_state import complete_eviction, evict, has_quota
from multiqueue.lib.quantity import QuantityError
from multiqueue.model.resources import format_amount, parse_quota
from multiqueue.simulation.queues import share_out
from multiqueue.whatif.snapshot import Snapshot

Json = dict[str, Any]
Submit = Callable[[Snapshot, str], Sequence[str]]
"""Submits the jobs of a file to a snapshot; returns the keys of their Workloads."""
NONE = "-"
"""The value that removes a limit."""


class ChangeError(ValueError):
    """A change that cannot be made; the message says what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRule:
    """One verb of the language.

    Attributes:
        form: How it is written.
        about: What it does, for the help.
        apply: Makes the change; returns what it did, in a sentence.
    """

    form: str
    about: str
    apply: Callable[[ChangeRequest], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """One change to make.

    Attributes:
        snapshot: The snapshot to change.
        verb: The first word.
        words: The other words.
        submit: Submits the jobs of a file that the change names.
    """

    snapshot: Snapshot
    verb: str
    words: Sequence[str]
    submit: Submit


class Setting(NamedTuple):
    """``RESOURCE[@FLAVOR]=VALUE``."""

    resource: str
    flavor: str
    value: str


def apply_change(snapshot: Snapshot, text: str, submit: Submit) -> str:
    """Make one change in a snapshot; return what it did, in a sentence.

    Args:
        snapshot: The snapshot to change.
        text: The change.
        submit: Submits the jobs of a file that the change names.

    Raises:
        ChangeError: it cannot be read, or names what the snapshot does not have.
    """
    try:
        verb, *words = shlex.split(text) or [""]
    except ValueError as error:
        raise ChangeError(f'"{text}" cannot be read: {error}; {list_forms()}') from error
    rule = RULES.get(verb)
    if rule is None:
        raise ChangeError(f'"{text}": there is no change "{verb}"; {list_forms()}')
    try:
        return rule.apply(ChangeRequest(snapshot=snapshot, verb=verb, words=words, submit=submit))
    except _FormError as error:
        detail = f"{error}; " if str(error) else ""
        raise ChangeError(f'"{text}": {detail}write "{rule.form}"') from error
    except ChangeError as error:
        raise ChangeError(f'"{text}": {error}') from error


def list_forms() -> str:
    """Return all forms in one line."""
    return "write one of: " + "; ".join(rule.form for rule in RULES.values())


class _FormError(ValueError):
    """The words of a change do not have its form."""


# ---------------------------------------------------------------- quotas and limits


def _set_quota(ask: ChangeRequest) -> str:
    obj, settings = _read_settings(ask.snapshot, ask.words)
    done = [_set_nominal(obj, setting) for setting in settings]
    return f"{_name(obj)}: {'; '.join(done)}"


def _set_nominal(obj: Json, setting: Setting) -> str:
    found = _find_quotas(obj, setting)
    before = {flavor: _amount(setting.resource, quota) for flavor, quota in found.items()}
    total = _parse(setting.resource, setting.value)
    after = _split(total, before)
    for flavor, quota in found.items():
        quota["nominalQuota"] = format_amount(setting.resource, after[flavor])
    return _tell(setting.resource, before, after)


def _split(total: int, before: dict[str, int]) -> dict[str, int]:
    """Split a quota over the flavors in the proportion that they have; evenly if all are zero."""
    weights = before if any(before.values()) else dict.fromkeys(before, 1)
    return share_out(total, weights)


def _tell(resource: str, before: dict[str, int], after: dict[str, int]) -> str:
    changes = (
        f"{format_amount(resource, before[flavor])} to {format_amount(resource, after[flavor])} "
        f"in flavor {flavor}"
        for flavor in before
    )
    return f"{resource} from {', from '.join(changes)}"


def _set_limit(ask: ChangeRequest) -> str:
    field = {"borrowing-limit": "borrowingLimit", "lending-limit": "lendingLimit"}[ask.verb]
    obj, settings = _read_settings(ask.snapshot, ask.words)
    for setting in settings:
        found = _find_quotas(obj, setting)
        if setting.value == NONE:
            for quota in found.values():
                quota.pop(field, None)
            continue
        if len(found) > 1:
            raise ChangeError(
                f"{_name(obj)} has {setting.resource} in {', '.join(found)}: name one as "
                f"{setting.resource}@FLAVOR={setting.value}"
            )
        limit = _parse(setting.resource, setting.value)
        next(iter(found.values()))[field] = format_amount(setting.resource, limit)
    return f"{_name(obj)}: {field} {', '.join('='.join(filter(None, s)) for s in settings)}"


def _read_settings(snapshot: Snapshot, words: Sequence[str]) -> tuple[Json, list[Setting]]:
    if len(words) < 2:
        raise _FormError
    return _find_quota_owner(snapshot, words[0]), [_read_setting(word) for word in words[1:]]


def _read_setting(word: str) -> Setting:
    where, equals, value = word.rpartition("=")
    resource, _, flavor = where.partition("@")
    if not (equals and resource and value):
        raise _FormError(f'"{word}" is no RESOURCE[@FLAVOR]=N')
    return Setting(resource, flavor, value)


def _find_quotas(obj: Json, setting: Setting) -> dict[str, Json]:
    """Return the quotas of a resource by flavor: of one flavor, or of all."""
    found = {
        flavor["name"]: quota
        for flavor, quota in _list_quotas(obj)
        if quota["name"] == setting.resource and setting.flavor in {"", flavor["name"]}
    }
    if not found:
        known = sorted({f"{quota['name']}@{flavor['name']}" for flavor, quota in _list_quotas(obj)})
        wanted = "@".join(filter(None, setting[:2]))
        raise ChangeError(f"{_name(obj)} has no quota of {wanted}; it has {', '.join(known)}")
    return found


def _list_quotas(obj: Json) -> Iterator[tuple[Json, Json]]:
    for group in obj["spec"].get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for quota in flavor.get("resources") or ():
                yield flavor, quota


def _amount(resource: str, quota: Json) -> int:
    return _parse(resource, quota.get("nominalQuota", 0))


def _parse(resource: str, value: Any) -> int:
    try:
        amount = parse_quota(resource, value)
    except QuantityError as error:
        raise ChangeError(f"{resource}: {error}") from error
    if amount < 0:
        raise ChangeError(f"{resource}: {value} is negative; use 0 or more")
    return amount


# ---------------------------------------------------------------- queues


def _set_weight(ask: ChangeRequest) -> str:
    target, value = _read_pair(ask.words)
    try:
        float(value)
    except ValueError:
        raise ChangeError(f'"{value}" is no number') from None
    obj = _find_quota_owner(ask.snapshot, target)
    before = (obj["spec"].get("fairSharing") or {}).get("weight", "1")
    obj["spec"]["fairSharing"] = {**(obj["spec"].get("fairSharing") or {}), "weight": value}
    return f"{_name(obj)}: weight from {before} to {value}"


def _set_field(ask: ChangeRequest) -> str:
    field = {"strategy": "queueingStrategy", "cohort": "cohortName"}[ask.verb]
    target, value = _read_pair(ask.words)
    if ask.verb == "strategy" and value not in {"StrictFIFO", "BestEffortFIFO"}:
        raise ChangeError(f'"{value}" is no strategy; use StrictFIFO or BestEffortFIFO')
    obj = _find(ask.snapshot, "ClusterQueue", _named(target, "cq"))
    before = obj["spec"].get(field) or "none"
    obj["spec"][field] = "" if value == NONE else value
    return f"{_name(obj)}: {ask.verb} from {before} to {obj['spec'][field] or 'none'}"


def _hold(ask: ChangeRequest) -> str:
    policy = {"hold": "Hold", "resume": "None"}[ask.verb]
    if len(ask.words) != 1:
        raise _FormError
    kind, _, name = ask.words[0].partition("/")
    if kind not in _QUEUES or not name:
        raise _FormError
    obj = _find(ask.snapshot, _QUEUES[kind], name)
    before = obj["spec"].get("stopPolicy") or "None"
    obj["spec"]["stopPolicy"] = policy
    return f"{_name(obj)}: stopPolicy from {before} to {policy}"


# ---------------------------------------------------------------- jobs


def _set_priority(ask: ChangeRequest) -> str:
    target, value = _read_pair(ask.words)
    obj = _find_workload(ask.snapshot, target)
    try:
        obj["spec"]["priority"] = int(value)
    except ValueError:
        raise ChangeError(f'"{value}" is no whole number') from None
    return f"Workload {target}: priority {value}"


def _cancel(ask: ChangeRequest) -> str:
    if len(ask.words) != 1:
        raise _FormError
    obj = _find_workload(ask.snapshot, ask.words[0])
    metadata = obj["metadata"]
    ask.snapshot.remove("Workload", f"{metadata['namespace']}/{metadata['name']}")
    return f"{ask.words[0]} is gone, and its quota is free"


def _submit(ask: ChangeRequest) -> str:
    if len(ask.words) != 1:
        raise _FormError
    keys = ask.submit(ask.snapshot, ask.words[0])
    return f"submitted: {', '.join(keys)}"


# ---------------------------------------------------------------- workers


def _cordon(ask: ChangeRequest) -> str:
    worker = _find_worker(ask.snapshot, ask.words)
    worker["metadata"].setdefault("annotations", {})[names.CORDON] = "true"
    return f"worker {ask.words[0]} takes no new jobs; those that run there stay"


def _drain(ask: ChangeRequest) -> str:
    worker = _find_worker(ask.snapshot, ask.words)
    worker["metadata"].setdefault("annotations", {})[names.CORDON] = "true"
    moved = _evict_from(ask.snapshot, ask.words[0])
    return f"worker {ask.words[0]} takes no new jobs, and its {_count(moved)} again"


def _remove(ask: ChangeRequest) -> str:
    _find_worker(ask.snapshot, ask.words)
    moved = _evict_from(ask.snapshot, ask.words[0])
    ask.snapshot.remove("MultiKueueCluster", ask.words[0])
    ask.snapshot.clusters.pop(ask.words[0], None)
    return f"worker {ask.words[0]} is gone, and its {_count(moved)} again"


def _count(moved: int) -> str:
    return "1 job queues" if moved == 1 else f"{moved} jobs queue"


def _find_worker(snapshot: Snapshot, words: Sequence[str]) -> Json:
    if len(words) != 1:
        raise _FormError
    return _find(snapshot, "MultiKueueCluster", words[0])


def _evict_from(snapshot: Snapshot, worker: str) -> int:
    """Evict the Workloads that run on a worker; return how many there are."""
    moved = 0
    for key, workload in snapshot.workloads().items():
        if workload.status.cluster_name != worker or not has_quota(workload.status):
            continue
        words = f"Worker {worker} is taken out of use"
        now = snapshot.taken_at
        status = evict(workload.status, Reason.NO_MATCHING_WORKLOAD, words, now=now)
        status = complete_eviction(status, now=now)
        snapshot.of("Workload")[key]["status"] = encode(status)
        moved += 1
    return moved


# ---------------------------------------------------------------- names

_OWNERS = {"cq": "ClusterQueue", "cohort": "Cohort"}
_QUEUES = {"cq": "ClusterQueue", "lq": "LocalQueue"}


def _read_pair(words: Sequence[str]) -> tuple[str, str]:
    if len(words) != 1:
        raise _FormError
    target, equals, value = words[0].rpartition("=")
    if not (target and equals and value):
        raise _FormError
    return target, value


def _named(target: str, kind: str) -> str:
    found, _, name = target.partition("/")
    if found != kind or not name:
        raise _FormError
    return name


def _find_quota_owner(snapshot: Snapshot, target: str) -> Json:
    kind, _, name = target.partition("/")
    if kind not in _OWNERS or not name:
        raise _FormError(f'"{target}" is neither cq/NAME nor cohort/NAME')
    return _find(snapshot, _OWNERS[kind], name)


def _find(snapshot: Snapshot, kind: str, key: str) -> Json:
    found = snapshot.of(kind).get(key)
    if found is None:
        known = ", ".join(sorted(snapshot.of(kind))) or "none"
        raise ChangeError(f'{kind} "{key}" is not in the snapshot; there are: {known}')
    return found


def _find_workload(snapshot: Snapshot, target: str) -> Json:
    """Return a Workload by its own name, or by that of its job."""
    workloads = snapshot.of("Workload")
    namespace, _, name = target.partition("/")
    if not name:
        raise _FormError(f'"{target}" is no NAMESPACE/JOB')
    if target in workloads:
        return workloads[target]
    owned = [
        obj
        for obj in workloads.values()
        if obj["metadata"].get("namespace") == namespace
        and any(owner.get("name") == name for owner in obj["metadata"].get("ownerReferences", ()))
    ]
    if len(owned) != 1:
        problem = "is not in the snapshot" if not owned else "has several Workloads: name one"
        raise ChangeError(f'job "{target}" {problem}')
    return owned[0]


def _name(obj: Json) -> str:
    metadata = obj["metadata"]
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{obj['kind']} {where}{metadata['name']}"


_QUOTA = "cq/NAME|cohort/NAME RESOURCE[@FLAVOR]=N ..."
RULES = {
    "quota": ChangeRule(
        form=f"quota {_QUOTA}",
        about="Nominal quota; without a flavor the sum, in the proportion that the flavors have.",
        apply=_set_quota,
    ),
    "borrowing-limit": ChangeRule(
        form=f"borrowing-limit {_QUOTA}", about="- is no limit.", apply=_set_limit
    ),
    "lending-limit": ChangeRule(
        form=f"lending-limit {_QUOTA}", about="- is no limit.", apply=_set_limit
    ),
    "weight": ChangeRule(
        form="weight cq/NAME|cohort/NAME=N", about="Weight of fair sharing.", apply=_set_weight
    ),
    "strategy": ChangeRule(
        form="strategy cq/NAME=StrictFIFO|BestEffortFIFO",
        about="Queueing strategy.",
        apply=_set_field,
    ),
    "cohort": ChangeRule(
        form="cohort cq/NAME=COHORT", about="Another cohort; - is none.", apply=_set_field
    ),
    "priority": ChangeRule(
        form="priority NAMESPACE/JOB=N", about="Priority of a job.", apply=_set_priority
    ),
    "hold": ChangeRule(
        form="hold cq/NAME|lq/NAMESPACE/NAME",
        about="Admit nothing more from a queue.",
        apply=_hold,
    ),
    "resume": ChangeRule(form="resume cq/NAME|lq/NAMESPACE/NAME", about="End a hold.", apply=_hold),
    "cordon": ChangeRule(form="cordon WORKER", about="A worker takes no new jobs.", apply=_cordon),
    "drain": ChangeRule(
        form="drain WORKER", about="A cordon, and its jobs queue again.", apply=_drain
    ),
    "remove": ChangeRule(
        form="remove WORKER", about="A worker is gone, and its jobs queue again.", apply=_remove
    ),
    "submit": ChangeRule(
        form="submit FILE", about="The jobs of a manifest are submitted.", apply=_submit
    ),
    "cancel": ChangeRule(form="cancel NAMESPACE/JOB", about="A job is deleted.", apply=_cancel),
    "finish": ChangeRule(form="finish NAMESPACE/JOB", about="A job ends now.", apply=_cancel),
}
