"""When the edges of the program try again: one table of policies, carried out by tenacity.

Work queues, informers, leases and connections to workers have backoffs of their own (`backoff`):
those depend on what else happens there. tenacity is imported when something is tried, so that
commands start without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from multiqueue.kube.backoff import Backoff

T = TypeVar("T")
Errors = type[BaseException] | tuple[type[BaseException], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often something is tried.

    Attributes:
        first: Seconds between the first attempt and the second.
        cap: The pause doubles until it has so many seconds; None: it stays the same.
        attempts: How often it is tried at most; None: until it succeeds.
    """

    first: float
    cap: float | None = None
    attempts: int | None = None

    async def run(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        on: Errors | Callable[[BaseException], bool] = (),
        until: Callable[[T], bool] = lambda _: True,
        tell: Callable[[BaseException], Awaitable[None] | None] = lambda _: None,
    ) -> T:
        """Try something until it gives a result that is wanted.

        Args:
            work: Is tried.
            on: Errors after which it is tried again; all others end it.
            until: Tells whether a result is wanted.
            tell: Gets the error before each pause.

        Returns:
            The result that is wanted; after the last attempt whatever it gave.

        Raises:
            BaseException: what ``work`` raised last.
        """
        import tenacity

        async def attempt() -> T:
            return await work()

        async def before_sleep(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            if error is not None and inspect.isawaitable(told := tell(error)):
                await told

        is_retried = (
            tenacity.retry_if_exception_type(on)
            if isinstance(on, type | tuple)
            else tenacity.retry_if_exception(on)
        )
        retrying = tenacity.AsyncRetrying(
            retry=is_retried | tenacity.retry_if_not_result(until),
            wait=tenacity.wait_exponential(multiplier=self.first, max=self.cap or self.first),
            stop=(
                tenacity.stop_after_attempt(self.attempts)
                if self.attempts is not None
                else tenacity.stop_never
            ),
            before_sleep=before_sleep,
            retry_error_callback=_last_outcome,
        )
        return await retrying(attempt)

    def pauses(self) -> Backoff:
        """Return the pauses for a loop that begins anew whenever things go well in between."""
        return Backoff(base=self.first, cap=self.cap or self.first)


def _last_outcome(state: object) -> object:
    return state.outcome.result()  # type: ignore[attr-defined]


REGISTRATION = RetryPolicy(first=5.0)
"""Certificates and registrations of webhooks, visibility and the worker guard: people or a restart
of the API server mend what is in the way, and each attempt costs two or three requests."""
KINDS = RetryPolicy(first=1.0)
"""A manager waits for its CustomResourceDefinitions, which are often applied in the same minute."""
RACE = RetryPolicy(first=0.0, attempts=5)
"""Replicas that start together race for a Secret; each round one of them wins."""
LEADER = RetryPolicy(first=0.25, attempts=8)
"""A Service leads to any replica and one decides: of three, all attempts miss it in 4 of 100."""
RIGHTS = RetryPolicy(first=0.25, attempts=40)
"""A new role reaches the authorizer of an API server within seconds; after 10 s it never does."""
FOLLOWED = RetryPolicy(first=1.0, cap=10.0)
"""A cluster that a command follows did not answer: somebody watches, and the cluster recovers."""
READY = RetryPolicy(first=0.05)
"""The demo's manager runs on this machine and is ready within a second or two."""
