"""Retry policies for the edges of the program, in one table; tenacity carries them out.

Work queues, informers, leases and connections to workers have their own backoffs (`backoff`), which
depend on more than the last error. tenacity is imported on first use, so that commands start fast.
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
    """Pauses between attempts, and the number of attempts.

    Attributes:
        first: Seconds between the first attempt and the second.
        cap: The pause doubles up to this number of seconds; None: it stays the same.
        attempts: Highest number of attempts; None: until one succeeds.
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
        """Repeat an attempt until its result is accepted.

        Args:
            work: The attempt.
            on: Errors after which there is another attempt; all others are raised.
            until: Tells whether a result is accepted.
            tell: Called with the error before each pause.

        Returns:
            The accepted result; after the last attempt, any result.

        Raises:
            BaseException: the last exception of ``work``.
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
        """Return the pauses for a loop that resets them after each success."""
        return Backoff(base=self.first, cap=self.cap or self.first)


def _last_outcome(state: object) -> object:
    return state.outcome.result()  # type: ignore[attr-defined]


REGISTRATION = RetryPolicy(first=5.0)
"""Certificates and registrations of webhooks, visibility and the worker guard: people or a restart
of the API server remove the cause, and each attempt costs two or three requests."""
KINDS = RetryPolicy(first=1.0)
"""The manager's CustomResourceDefinitions, which are often applied in the same minute."""
RACE = RetryPolicy(first=0.0, attempts=5)
"""Replicas that start together race to write a Secret; one of them wins in each round."""
LEADER = RetryPolicy(first=0.25, attempts=8)
"""A Service picks any replica but only the leader decides. With three replicas, all attempts miss
the leader in 4 of 100 cases."""
RIGHTS = RetryPolicy(first=0.25, attempts=40)
"""A new role reaches an API server's authorizer within seconds; after 10 s it never will."""
POLICIES = RetryPolicy(first=0.25, attempts=40)
"""A new admission policy is in force after a second or two; after 10 s it is not asked at all."""
FOLLOWED = RetryPolicy(first=1.0, cap=10.0)
"""A cluster that a command follows did not answer: a user watches until it recovers."""
READY = RetryPolicy(first=0.05)
"""The demo's manager runs on this machine and is ready within a second or two."""
