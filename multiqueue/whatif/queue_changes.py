"""Changes of quotas, limits and queues. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from multiqueue.lib.quantity import QuantityError
from multiqueue.lib.shares import share_out
from multiqueue.model.resources import format_amount, parse_quota
from multiqueue.whatif.change_request import (
    ChangeError,
    ChangeRequest,
    FormError,
    find_object,
    find_quota_owner,
    name_of,
    read_name,
    read_pair,
)
from multiqueue.whatif.snapshot import Snapshot

Json = dict[str, Any]
NONE = "-"
"""The value that removes a limit."""
_QUEUES = {"cq": "ClusterQueue", "lq": "LocalQueue"}


class QuotaSetting(NamedTuple):
    """``RESOURCE[@FLAVOR]=VALUE``."""

    resource: str
    flavor: str
    value: str


def set_quota(ask: ChangeRequest) -> str:
    """Set the nominal quota of resources."""
    obj, settings = _read_settings(ask.snapshot, ask.words)
    done = [_set_nominal(obj, setting) for setting in settings]
    return f"{name_of(obj)}: {'; '.join(done)}"


def _set_nominal(obj: Json, setting: QuotaSetting) -> str:
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


def set_limit(ask: ChangeRequest) -> str:
    """Set or remove a borrowing or lending limit."""
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
                f"{name_of(obj)} has {setting.resource} in {', '.join(found)}: name one as "
                f"{setting.resource}@FLAVOR={setting.value}"
            )
        limit = _parse(setting.resource, setting.value)
        next(iter(found.values()))[field] = format_amount(setting.resource, limit)
    return f"{name_of(obj)}: {field} {', '.join('='.join(filter(None, s)) for s in settings)}"


def _read_settings(snapshot: Snapshot, words: Sequence[str]) -> tuple[Json, list[QuotaSetting]]:
    if len(words) < 2:
        raise FormError
    return find_quota_owner(snapshot, words[0]), [_read_setting(word) for word in words[1:]]


def _read_setting(word: str) -> QuotaSetting:
    where, equals, value = word.rpartition("=")
    resource, _, flavor = where.partition("@")
    if not (equals and resource and value):
        raise FormError(f'"{word}" is no RESOURCE[@FLAVOR]=N')
    return QuotaSetting(resource, flavor, value)


def _find_quotas(obj: Json, setting: QuotaSetting) -> dict[str, Json]:
    """Return the quotas of a resource by flavor: of one flavor, or of all."""
    found = {
        flavor["name"]: quota
        for flavor, quota in _list_quotas(obj)
        if quota["name"] == setting.resource and setting.flavor in {"", flavor["name"]}
    }
    if not found:
        known = sorted({f"{quota['name']}@{flavor['name']}" for flavor, quota in _list_quotas(obj)})
        wanted = "@".join(filter(None, setting[:2]))
        raise ChangeError(f"{name_of(obj)} has no quota of {wanted}; it has {', '.join(known)}")
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


def set_weight(ask: ChangeRequest) -> str:
    """Set the weight of fair sharing."""
    target, value = read_pair(ask.words)
    try:
        float(value)
    except ValueError:
        raise ChangeError(f'"{value}" is no number') from None
    obj = find_quota_owner(ask.snapshot, target)
    before = (obj["spec"].get("fairSharing") or {}).get("weight", "1")
    obj["spec"]["fairSharing"] = {**(obj["spec"].get("fairSharing") or {}), "weight": value}
    return f"{name_of(obj)}: weight from {before} to {value}"


def set_field(ask: ChangeRequest) -> str:
    """Set the queueing strategy or the cohort of a ClusterQueue."""
    field = {"strategy": "queueingStrategy", "cohort": "cohortName"}[ask.verb]
    target, value = read_pair(ask.words)
    if ask.verb == "strategy" and value not in {"StrictFIFO", "BestEffortFIFO"}:
        raise ChangeError(f'"{value}" is no strategy; use StrictFIFO or BestEffortFIFO')
    obj = find_object(ask.snapshot, "ClusterQueue", read_name(target, "cq"))
    before = obj["spec"].get(field) or "none"
    obj["spec"][field] = "" if value == NONE else value
    return f"{name_of(obj)}: {ask.verb} from {before} to {obj['spec'][field] or 'none'}"


def hold(ask: ChangeRequest) -> str:
    """Hold or resume a queue."""
    policy = {"hold": "Hold", "resume": "None"}[ask.verb]
    if len(ask.words) != 1:
        raise FormError
    kind, _, name = ask.words[0].partition("/")
    if kind not in _QUEUES or not name:
        raise FormError
    obj = find_object(ask.snapshot, _QUEUES[kind], name)
    before = obj["spec"].get("stopPolicy") or "None"
    obj["spec"]["stopPolicy"] = policy
    return f"{name_of(obj)}: stopPolicy from {before} to {policy}"
