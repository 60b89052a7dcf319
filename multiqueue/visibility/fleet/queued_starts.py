"""Estimated starts of Workloads that wait for the manager's quota, for rows that somebody reads.

An estimate costs some milliseconds. So there are at most `PER_SECOND`, and each is good for a
fiftieth of the wait (S-102). A row that has none yet says so, and is sent again once it has one.
With nobody reading, nothing is computed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from multiqueue.api.v1beta2.meta import parse_time
from multiqueue.views.start import NoEstimate, tell_no_start
from multiqueue.visibility.explanations import QuotaStarts

Json = Mapping[str, Any]

PER_SECOND = 5
"""Estimates a second: about 5 % of a core if ten thousand Workloads wait."""
SHARE, LEAST_SECONDS, MOST_SECONDS = 0.02, 2.0, 60.0
"""An estimate is good for this share of the wait, between these bounds."""
MAX_KNOWN = 1000
NOT_YET: Json = {"reason": "no estimate yet: others are estimated first"}


class _Estimated(NamedTuple):
    """What is known of a Workload, and until when by the loop's clock."""

    start: Json
    due_at: float


class QueuedStarts:
    """Keeps the estimates of the Workloads that were read last.

    Args:
        starts: Estimates one.
        leading: Set while this manager leads; only the leader estimates.
        now: The time of day.
    """

    def __init__(
        self, starts: QuotaStarts, leading: asyncio.Event, now: Callable[[], datetime]
    ) -> None:
        self._starts = starts
        self._leading = leading
        self._now = now
        self._known: OrderedDict[str, _Estimated] = OrderedDict()
        self._tokens, self._filled_at = float(PER_SECOND), 0.0

    async def find_start(self, key: str) -> Json:
        """Return when a Workload is expected to start, or why that is not known now."""
        if not self._leading.is_set():
            return tell_no_start(NoEstimate.NOT_LEADING)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Estimated(NOT_YET, 0.0)
        self._known.move_to_end(key)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        if known.due_at <= asyncio.get_running_loop().time() and self._take_token():
            known = await self._estimate(key)
        return known.start

    def list_known(self) -> Iterator[Json]:
        """Yield the starts of those that were read last."""
        return (each.start for each in self._known.values())

    async def refresh(self) -> list[str]:
        """Estimate again what is due; return the Workloads whose start changed."""
        if not self._leading.is_set():
            return []
        now, changed = asyncio.get_running_loop().time(), []
        for key, known in [each for each in self._known.items() if each[1].due_at <= now]:
            if not self._take_token():
                break
            if (await self._estimate(key)).start != known.start:
                changed.append(key)
        return changed

    async def _estimate(self, key: str) -> _Estimated:
        start = await self._starts.find_start(key)
        if start is None:
            # It waits no more. Its row says so once the informer does.
            self._known.pop(key, None)
            return _Estimated(NOT_YET, 0.0)
        at = parse_time(start.get("at"))
        wait = MOST_SECONDS if at is None else (at - self._now()).total_seconds()
        good = min(max(wait * SHARE, LEAST_SECONDS), MOST_SECONDS)
        found = _Estimated(start, asyncio.get_running_loop().time() + good)
        self._known[key] = found
        return found

    def _take_token(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._tokens = min(PER_SECOND, self._tokens + (now - self._filled_at) * PER_SECOND)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
