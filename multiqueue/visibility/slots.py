"""How much is done for one user at a time, and for all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from multiqueue.visibility.refusals import too_many_requests


class Slots:
    """Counts what is under way.

    Args:
        total: For all users together.
        of_a_user: For one user: it takes several to use up all.
    """

    def __init__(self, total: int, of_a_user: int) -> None:
        self._total = total
        self._of_a_user = of_a_user
        self._by_user: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        """How many slots are taken now."""
        return self._by_user.total()

    @contextmanager
    def take(self, user: str) -> Iterator[None]:
        """Hold a slot while the block runs.

        Raises:
            Refusal: 429, there is none.
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
