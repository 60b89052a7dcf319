"""The newest dispatch epoch of each name, and the decision about a request. Pure.

A dispatch epoch is the time of the reservation on the manager, so later ones are newer. Every
accepted object raises the mark of its name. The mark remains when the object is deleted. So a
manager that was paused or cut off for a while cannot bring back what was replaced meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from multiqueue.api.names import (
    DISPATCH_EPOCH,
    MANAGER,
    MULTIKUEUE_ORIGIN,
    PREBUILT_WORKLOAD_NAME,
)
from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.api.validation.access import mapping
from multiqueue.api.validation.field_error import FieldError, forbidden
from multiqueue.webhooks.review import ReviewRequest, ReviewVerdict

MAX_MARKS = 4000
"""How many names are remembered: some 700 KB, which fits into one ConfigMap.

The names seen last are kept. A request is not expected to arrive after 4,000 other names.
"""
EPOCH_PATH = f"metadata.annotations[{DISPATCH_EPOCH}]"

Json = Mapping[str, Any]
IsHeld = Callable[[str, Json], bool]
"""Whether an object of a kind may not run yet."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The names that a remote object marks, and its dispatch epoch."""

    names: tuple[str, ...]
    epoch: datetime


def read_stamp(kind: str, obj: Json) -> Stamp | None:
    """Return the stamp of an object; None if it has none, like upstream's objects.

    A job marks its own name and that of its Workload, since both are made for the same reservation.
    Each manager has its own marks, because clocks and reservations of managers are unrelated.
    """
    metadata = mapping(obj, "metadata")
    labels, annotations = mapping(metadata, "labels"), mapping(metadata, "annotations")
    origin, epoch = labels.get(MULTIKUEUE_ORIGIN), _parse(annotations.get(DISPATCH_EPOCH))
    if not origin or epoch is None:
        return None
    whose = f"{origin}/{annotations.get(MANAGER, '')}/{metadata.get('namespace', '')}"
    names = [f"{whose}/{kind}/{metadata.get('name', '')}"]
    workload = annotations.get(PREBUILT_WORKLOAD_NAME) or labels.get(PREBUILT_WORKLOAD_NAME)
    if kind != "Workload" and workload:
        names.append(f"{whose}/Workload/{workload}")
    return Stamp(tuple(names), epoch)


def is_suspended(kind: str, obj: Json) -> bool:
    """Whether the field that most kinds have suspends an object."""
    _ = kind
    return bool(mapping(obj, "spec").get("suspend"))


class EpochBook:
    """The marks of all names.

    Args:
        marks: Those of an earlier guard.
        is_held: Tells whether an object may not run yet.

    Attributes:
        version: Grows with every change.
    """

    def __init__(
        self, marks: Mapping[str, str] | None = None, *, is_held: IsHeld = is_suspended
    ) -> None:
        self._is_held = is_held
        self._marks: OrderedDict[str, datetime] = OrderedDict()
        self.version = 0
        for name, text in (marks or {}).items():
            epoch = _parse(text)
            if epoch is not None:
                self._raise(name, epoch)

    @property
    def marks(self) -> dict[str, str]:
        """All marks, in the order in which their names were last seen."""
        return {name: epoch.isoformat() for name, epoch in self._marks.items()}

    def see(self, kind: str, obj: Json) -> None:
        """Record an object that exists or existed."""
        stamp = read_stamp(kind, obj)
        for name in stamp.names if stamp is not None else ():
            assert stamp is not None
            self._raise(name, stamp.epoch)

    def judge(self, request: ReviewRequest) -> ReviewVerdict:
        """Refuse an object of an older reservation than the newest one seen."""
        if request.operation == "DELETE":
            self.see(request.kind, request.old)
            return ReviewVerdict()
        stamp = read_stamp(request.kind, _with_name(request))
        if stamp is None or mapping(request.obj, "metadata").get("deletionTimestamp"):
            return ReviewVerdict()
        newest = max((self._marks[n] for n in stamp.names if n in self._marks), default=stamp.epoch)
        if stamp.epoch >= newest:
            for name in stamp.names:
                self._raise(name, stamp.epoch)
            return ReviewVerdict()
        if request.operation == "UPDATE" and not self._starts_or_rewinds(request, stamp):
            return ReviewVerdict()
        return ReviewVerdict(errors=[_refuse(newest)])

    def _starts_or_rewinds(self, request: ReviewRequest, stamp: Stamp) -> bool:
        """Whether an update lets an old object run, or gives a newer object an older epoch.

        All other updates are left to the worker's own controllers, which must be able to stop it.
        """
        before = read_stamp(request.kind, _with_name(request, old=True))
        if before is None or before.epoch > stamp.epoch:
            return True
        was, is_now = (self._is_held(request.kind, body) for body in (request.old, request.obj))
        return was and not is_now

    def _raise(self, name: str, epoch: datetime) -> None:
        known = self._marks.get(name)
        if known is None or epoch > known:
            self._marks[name] = epoch
            self.version += 1
        self._marks.move_to_end(name)
        while len(self._marks) > MAX_MARKS:
            self._marks.popitem(last=False)


def _parse(text: object) -> datetime | None:
    """Read an epoch; an annotation may contain anything."""
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _with_name(request: ReviewRequest, *, old: bool = False) -> Json:
    body = request.old if old else request.obj
    metadata = {"namespace": request.namespace, "name": request.name}
    return {**body, "metadata": {**metadata, **mapping(body, "metadata")}}


def _refuse(newest: datetime) -> FieldError:
    return forbidden(
        EPOCH_PATH,
        f"was made for an older reservation than that of {newest:%Y-%m-%dT%H:%M:%SZ}, which was "
        "seen here; the manager that sent it is not up to date",
    )
