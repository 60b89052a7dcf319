"""Which rows of a list are wanted, and in which order: filters, sorting and pages.

``continue`` holds the sort key of the last row of a page, not an offset: rows that come or go
between two pages neither repeat nor hide others.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from multiqueue.lib.digits import is_number
from multiqueue.lib.selectors import LabelSelector, SelectorError, parse_label_selector
from multiqueue.views.standing import Standing
from multiqueue.visibility.refusals import bad_request

DEFAULT_LIMIT, MAX_LIMIT = 500, 1000
STEP, FACTS_STEP = 2000, 40
"""Keys, and rows, that are compared before other tasks run: two or three milliseconds."""

SortKey = tuple[Any, str]
_FIELDS: Mapping[str, Callable[[Standing], object]] = {
    "phase": lambda facts: str(facts.view.state),
    "worker": lambda facts: facts.view.worker,
    "clusterQueue": lambda facts: facts.cluster_queue,
    "localQueue": lambda facts: facts.view.queue,
    "team": lambda facts: facts.team,
    "flavor": lambda facts: facts.flavors,
    "metadata.name": lambda facts: facts.view.key.partition("/")[2],
    "metadata.namespace": lambda facts: facts.view.namespace,
}
_ORDERS: Mapping[str, Callable[[Standing], Any]] = {
    "created": lambda facts: facts.view.created.timestamp() if facts.view.created else 0.0,
    "priority": lambda facts: facts.view.priority,
    "gpus": lambda facts: facts.view.gpus,
    "phase": lambda facts: str(facts.view.state),
    "worker": lambda facts: facts.view.worker,
    "clusterQueue": lambda facts: facts.cluster_queue,
}
NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """What a request wants of a list.

    Attributes:
        fields: (name, value, whether it has to be equal) of each field selector.
        labels: The label selector; None: all.
        search: A prefix of the Workload's or the job's name, in lower case.
        sort_by: A key of `_ORDERS`, or ``name``.
        reverse: Whether the greatest comes first.
        limit: The greatest number of rows.
        after: The sort key of the last row of the page before; None: the first page.
    """

    fields: tuple[tuple[str, str, bool], ...] = ()
    labels: LabelSelector | None = None
    search: str = ""
    sort_by: str = NAME
    reverse: bool = False
    limit: int = DEFAULT_LIMIT
    after: SortKey | None = field(default=None)

    @property
    def needs_facts(self) -> bool:
        """Whether more than the names of Workloads decides."""
        return bool(self.fields or self.labels or self.search) or self.sort_by != NAME

    def takes(self, facts: Standing) -> bool:
        """Whether a Workload is wanted."""
        if self.labels is not None and not self.labels.matches(facts.labels):
            return False
        for name, value, wanted in self.fields:
            found = _FIELDS[name](facts)
            if (value in found if isinstance(found, tuple) else value == found) is not wanted:
                return False
        if not self.search:
            return True
        name = facts.view.key.partition("/")[2]
        job = facts.view.job.rpartition("/")[2]
        return name.lower().startswith(self.search) or job.lower().startswith(self.search)

    def is_after(self, key: SortKey) -> bool:
        """Whether a row is on this page or a later one."""
        return self.after is None or (key < self.after if self.reverse else key > self.after)


def read_selection(query: Mapping[str, str]) -> RowSelection:
    """Read the parameters of a list.

    Raises:
        StatusRefusal: 400, names the parameter.
    """
    order = query.get("sortBy") or NAME
    sort_by = order.removeprefix("-")
    if sort_by != NAME and sort_by not in _ORDERS:
        raise _invalid("sortBy", order, f"must be one of {', '.join([NAME, *_ORDERS])}")
    return RowSelection(
        fields=tuple(_read_fields(query.get("fieldSelector") or "")),
        labels=_read_labels(query.get("labelSelector") or ""),
        search=(query.get("search") or "").lower(),
        sort_by=sort_by,
        reverse=order.startswith("-"),
        limit=read_limit(query),
        after=read_continue(query),
    )


def read_limit(query: Mapping[str, str]) -> int:
    """Read ``limit``; 0 means the default, and more than the most is cut.

    Raises:
        StatusRefusal: 400, it is no number.
    """
    text = query.get("limit") or "0"
    if not is_number(text):
        raise _invalid("limit", text, "must be an integer, 0 or more")
    return min(int(text) or DEFAULT_LIMIT, MAX_LIMIT)


def read_continue(query: Mapping[str, str]) -> SortKey | None:
    """Read ``continue``.

    Raises:
        StatusRefusal: 400, it is none of ours.
    """
    text = query.get("continue") or ""
    if not text:
        return None
    try:
        value, key = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError, TypeError) as error:
        raise _invalid("continue", text[:80], "must be the value of an earlier page") from error
    if not isinstance(key, str) or not isinstance(value, str | int | float):
        raise _invalid("continue", text[:80], "must be the value of an earlier page")
    return value, key


def read_place(query: Mapping[str, str]) -> int:
    """Read ``continue`` of a list in the order of its source: how many rows come before the page.

    Raises:
        StatusRefusal: 400, it is none of ours, or of a list in another order.
    """
    after = read_continue(query)
    place = 0 if after is None else after[0]
    if not isinstance(place, int) or place < 0:
        raise _invalid("continue", "", "must be the value of an earlier page of this list")
    return place


def write_continue(key: SortKey) -> str:
    """Return ``continue`` for the rows after this one."""
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


async def select(
    selection: RowSelection,
    keys: Iterable[str],
    find_facts: Callable[[str], Standing | None],
) -> tuple[list[str], str]:
    """Return the keys of a page, and ``continue`` for the next one; empty on the last.

    Cost: one comparison for each key, in steps between which other tasks run.
    """
    best: list[SortKey] = []
    most = selection.limit + 1
    step = FACTS_STEP if selection.needs_facts else STEP
    for count, key in enumerate(keys, start=1):
        found = _sort_key(selection, key, find_facts)
        if found is not None and _is_after(selection, found):
            best.append(found)
            if len(best) >= 4 * most:
                best = _first(selection, best, most)
        if count % step == 0:
            await asyncio.sleep(0)
    best = _first(selection, best, most)
    page = best[: selection.limit]
    rest = write_continue(page[-1]) if len(best) > selection.limit else ""
    return [key for _, key in page], rest


def _sort_key(
    selection: RowSelection, key: str, find_facts: Callable[[str], Standing | None]
) -> SortKey | None:
    if not selection.needs_facts:
        return ("", key)
    facts = find_facts(key)
    if facts is None or not selection.takes(facts):
        return None
    order = _ORDERS.get(selection.sort_by)
    return ("" if order is None else order(facts), key)


def _is_after(selection: RowSelection, key: SortKey) -> bool:
    try:
        return selection.is_after(key)
    except TypeError as error:
        raise _invalid("continue", "", "belongs to a list with another sortBy") from error


def _first(selection: RowSelection, keys: list[SortKey], most: int) -> list[SortKey]:
    return (heapq.nlargest if selection.reverse else heapq.nsmallest)(most, keys)


def _read_fields(text: str) -> Iterable[tuple[str, str, bool]]:
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, operator, value = part.partition("!=")
        if not operator:
            name, operator, value = part.partition("=")
            value = value.removeprefix("=")
        name = name.strip().removeprefix("status.")
        if not operator or name not in _FIELDS:
            known = ", ".join(_FIELDS)
            raise _invalid("fieldSelector", part, f"must be FIELD=VALUE with one of {known}")
        yield name, value.strip(), "!=" not in part


def _read_labels(text: str) -> LabelSelector | None:
    try:
        return parse_label_selector(text) if text else None
    except SelectorError as error:
        raise _invalid("labelSelector", text, str(error)) from error


def _invalid(name: str, value: str, what: str) -> Exception:
    return bad_request(f'{name}: Invalid value: "{value}": {what}')
