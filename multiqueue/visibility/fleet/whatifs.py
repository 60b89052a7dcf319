"""What-ifs: what a change would make different, and when a job would start. Nothing is written.

``POST …/v1alpha1/whatifs`` tries changes of the fleet, and ``…/namespaces/NS/whatifs`` a job of
that namespace. At most one is computed at a time, and each user may ask `BURST` times, then once
in `REFILL_SECONDS`. Workloads of namespaces that the user may not list are counted, not named.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import Any, Protocol

from multiqueue.lib.bounded_json import JsonError, load
from multiqueue.visibility import refusals
from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.fleet.resources import LIST_WORKLOADS
from multiqueue.visibility.fleet.rights import FleetRights, native_action
from multiqueue.visibility.refusals import StatusRefusal

Json = dict[str, Any]

MAX_CHANGES, MAX_CHANGE_LENGTH = 20, 500
MAX_ROWS = 500
"""Rows of an answer; ``more`` counts the others."""
BURST, REFILL_SECONDS = 5.0, 6.0
MAX_USERS = 1024
"""Users whose rate is remembered."""
OF_A_JOB = frozenset({"priority", "cancel", "finish"})
"""Verbs whose first word names a job."""
A_STRANGER = "a job of another namespace"
_KEY = re.compile(
    r"(?<![\w./-])([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)/([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)"
)


class WhatIfProblem(StrEnum):
    """Why there is no answer."""

    INVALID = "Invalid"
    TOO_LARGE = "TooLarge"
    TOO_SLOW = "TooSlow"
    FAILED = "Failed"


class WhatIfFailure(Exception):  # noqa: N818 - an answer, not a failure of the program
    """There is no answer; the message says why, and what to do."""

    def __init__(self, problem: WhatIfProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfQuestion:
    """What to try.

    Attributes:
        changes: The changes, in the grammar of ``replay --what-if``.
        job: The manifest of a job to submit after them; None: none.
        job_namespace: The namespace of that job.
    """

    changes: tuple[str, ...] = ()
    job: Json | None = None
    job_namespace: str = ""


class WhatIfSource(Protocol):
    """Tries changes out."""

    async def try_out(self, question: WhatIfQuestion) -> Json:
        """Return the document of the answer, with all names.

        Raises:
            WhatIfFailure: there is no answer.
        """
        ...


class WhatIfAnswers:
    """Answers what-ifs.

    Args:
        source: Tries changes out.
        rights: Checks native rights.
        list_namespaces: Returns the namespaces that have objects.
    """

    def __init__(
        self,
        source: WhatIfSource,
        rights: FleetRights,
        list_namespaces: Callable[[], Collection[str]],
    ) -> None:
        self._source = source
        self._rights = rights
        self._list_namespaces = list_namespaces
        self._is_computing = False
        self._rates: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def answer(self, user: AuthenticatedUser, namespace: str, body: bytes) -> Json:
        """Return ``spec`` and ``status`` of the answer.

        Args:
            user: Who asks; the rights on the path and the native rights have been checked.
            namespace: That of the request; empty: the whole fleet.
            body: The body of the request.

        Raises:
            StatusRefusal: 400 or 422, what is asked cannot be tried; 403, a right is missing; 413
                or 504, it is too large or takes too long; 429, too much is asked.
        """
        question = read_question(body, namespace)
        for named in sorted(find_named_namespaces(question)):
            await self._rights.authorize(user, native_action(LIST_WORKLOADS, named))
        if self._is_computing:
            raise refuse_rate(
                "the manager computes one what-if at a time, and another one is under way", 2
            )
        self._take_token(user.name)
        self._is_computing = True
        try:
            found = await self._source.try_out(question)
        except WhatIfFailure as failure:
            raise _refuse(failure) from failure
        finally:
            self._is_computing = False
        strangers = await self._find_strangers(user, found)
        status = hide(found, strangers, whole=not namespace)
        spec: Json = {"changes": list(question.changes)}
        return {"spec": spec, "status": status}

    async def _find_strangers(self, user: AuthenticatedUser, found: Json) -> frozenset[str]:
        """Return the namespaces of an answer that the user may not see."""
        known = frozenset(self._list_namespaces())
        mentioned = {each["namespace"] for each in found["counts"]}
        for each in [*found["workloads"], {**found, "workloads": None}]:
            mentioned |= known & _list_mentioned(each)
            await asyncio.sleep(0)
        return frozenset(mentioned) - await self._rights.find_visible(user, mentioned)

    def _take_token(self, user: str) -> None:
        now = asyncio.get_running_loop().time()
        tokens, since = self._rates.pop(user, (BURST, now))
        tokens = min(BURST, tokens + (now - since) / REFILL_SECONDS)
        self._rates[user] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._rates) > MAX_USERS:
            self._rates.popitem(last=False)
        if tokens < 1:
            raise refuse_rate(
                f"you asked {BURST:g} what-ifs in a row; one more is possible every "
                f"{REFILL_SECONDS:g} s",
                ceil((1 - tokens) * REFILL_SECONDS),
            )


def read_question(body: bytes, namespace: str) -> WhatIfQuestion:
    """Read the body of a request.

    Raises:
        StatusRefusal: 400, it is no what-if; 422, it has too much or nothing to try.
    """
    try:
        asked = load(body)
    except JsonError as error:
        raise refusals.bad_request(f"the body cannot be read: {error}") from error
    spec = asked.get("spec") if isinstance(asked, dict) else None
    if not isinstance(spec, dict):
        raise refusals.bad_request("spec: must be an object with changes, job, or both")
    if unknown := sorted(set(spec) - {"changes", "job"}):
        raise refusals.bad_request(f"spec.{unknown[0]}: is not known; there are changes and job")
    changes, job = spec.get("changes") or [], spec.get("job")
    if not isinstance(changes, list) or not all(isinstance(each, str) for each in changes):
        raise refusals.bad_request("spec.changes: must be a list of texts")
    if len(changes) > MAX_CHANGES or any(len(each) > MAX_CHANGE_LENGTH for each in changes):
        raise refusals.invalid(
            f"spec.changes: at most {MAX_CHANGES} changes of {MAX_CHANGE_LENGTH} characters"
        )
    if job is not None and not isinstance(job, dict):
        raise refusals.bad_request("spec.job: must be the manifest of a job")
    if namespace and changes:
        raise refusals.invalid(
            "spec.changes: changes are tried for the whole fleet only; leave the namespace out of "
            "the path"
        )
    if not changes and job is None:
        raise refusals.invalid("spec: nothing to try; give changes, job, or both")
    return WhatIfQuestion(
        changes=tuple(changes), job=job, job_namespace=_find_namespace(job, namespace)
    )


def _find_namespace(job: Json | None, namespace: str) -> str:
    """Return the namespace of a job."""
    if job is None:
        return ""
    metadata = job.get("metadata")
    if not isinstance(metadata, dict):
        raise refusals.invalid("spec.job.metadata: must be an object")
    own = metadata.get("namespace") or namespace or "default"
    if not isinstance(own, str) or (namespace and own != namespace):
        raise refusals.invalid(
            f"spec.job.metadata.namespace: must be {namespace or 'a text'}, as in the path"
        )
    return own


def find_named_namespaces(question: WhatIfQuestion) -> set[str]:
    """Return the namespaces whose jobs a question names: the answer tells whether they exist."""
    found = {question.job_namespace} if question.job is not None else set()
    for change in question.changes:
        try:
            verb, *words = shlex.split(change) or [""]
        except ValueError:
            continue  # it is refused when it is tried
        if verb in OF_A_JOB and words and "/" in words[0]:
            found.add(words[0].partition("/")[0])
    return found


def hide(found: Json, strangers: Collection[str], *, whole: bool) -> Json:
    """Return an answer in which the Workloads of some namespaces are only counted.

    Args:
        found: The answer with all names.
        strangers: The namespaces to hide.
        whole: Whether the question was about the whole fleet; else the sums of GPUs stay out.
    """
    rows = [row for row in found["workloads"] if _namespace_of(row) not in strangers]
    counts: dict[str, int] = {}
    visible = 0
    for each in found["counts"]:
        if each["namespace"] in strangers:
            counts[each["effect"]] = counts.get(each["effect"], 0) + each["count"]
        else:
            visible += each["count"]
    kept = rows[:MAX_ROWS]
    status: Json = {
        **{name: found[name] for name in ("time", "notes", "problem", "changes")},
        "workloads": kept,
        "more": visible - len(kept),
        "others": counts,
        "sums": found["sums"],
        "gpusBeyondWorkers": found["gpusBeyondWorkers"],
        "leftOut": found["leftOut"],
    }
    if "job" in found:
        status["job"] = found["job"]
    if not whole:
        status["notes"] = []
        for name in ("gpusIdle", "gpusBorrowed"):
            status["sums"] = {key: each for key, each in status["sums"].items() if key != name}
        del status["gpusBeyondWorkers"]
    hidden: Json = _hide_keys(status, frozenset(strangers)) if strangers else status
    return hidden


def _namespace_of(row: Json) -> str:
    return str((row["after"] or row["before"])["workload"].partition("/")[0])


def _hide_keys(value: Any, strangers: Collection[str]) -> Any:
    """Return a value in whose texts no Workload or queue of the namespaces is named."""
    if isinstance(value, dict):
        return {key: _hide_keys(each, strangers) for key, each in value.items()}
    if isinstance(value, list):
        return [_hide_keys(each, strangers) for each in value]
    if not isinstance(value, str) or "/" not in value:
        return value
    return _KEY.sub(lambda m: A_STRANGER if m[1] in strangers else m[0], value)


def _list_mentioned(value: Any) -> set[str]:
    """Return what may be a namespace in the texts of a value."""
    if isinstance(value, dict):
        return set().union(*map(_list_mentioned, value.values()))
    if isinstance(value, list):
        return set().union(*map(_list_mentioned, value))
    return {match[1] for match in _KEY.finditer(value)} if isinstance(value, str) else set()


def refuse_rate(message: str, seconds: int) -> StatusRefusal:
    """Refuse a question above the rate; say when to ask again."""
    details = {"retryAfterSeconds": max(1, seconds)}
    return StatusRefusal(429, "TooManyRequests", f"{message}; try again in {seconds} s", details)


def _refuse(failure: WhatIfFailure) -> StatusRefusal:
    text = str(failure)
    if failure.problem is WhatIfProblem.INVALID:
        return refusals.invalid(text)
    if failure.problem is WhatIfProblem.TOO_LARGE:
        return StatusRefusal(413, "RequestEntityTooLarge", text)
    if failure.problem is WhatIfProblem.TOO_SLOW:
        return StatusRefusal(504, "Timeout", text)
    return StatusRefusal(500, "InternalError", text)
