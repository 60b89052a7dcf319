"""Limits of concurrent work, for one user and for all users together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from multiqueue.visibility.refusals import too_many_requests


class Slots:
    """Counts concurrent work.

    Args:
        total: The limit for all users together.
        of_a_user: The limit for one user; it is lower, so one user cannot use up all slots.
    """

    def __init__(self, total: int, of_a_user: int) -> None:
        self._total = total
        self._of_a_user = of_a_user
        self._by_user: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        """The number of slots in use."""
        return self._by_user.total()

    @contextmanager
    def take(self, user: str) -> Iterator[None]:
        """Hold a slot while the block runs.

        Raises:
            StatusRefusal: 429, no slot is free.
        """
        if self.under_way >= self._total or self._by_user[user] >= self._of_a_user:
            raise too_many_requests()
        self._by_user[user] += 1
        try:
            yield
        finally:
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]
