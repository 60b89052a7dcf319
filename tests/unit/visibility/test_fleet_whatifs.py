"""What may be asked of what-ifs: how often, how much, by whom; and whose names are in answers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import orjson
import pytest

from multiqueue.visibility.authentication import AuthenticatedUser
from multiqueue.visibility.authorization import ApiAction, RightsReviewer, forbidden
from multiqueue.visibility.fleet.rights import FleetRights
from multiqueue.visibility.fleet.whatifs import (
    BURST,
    WhatIfAnswers,
    WhatIfFailure,
    WhatIfProblem,
    WhatIfQuestion,
    find_named_namespaces,
    read_question,
)
from multiqueue.visibility.refusals import StatusRefusal

ADA, BOB = AuthenticatedUser(name="ada"), AuthenticatedUser(name="bob")
BODY = orjson.dumps({"spec": {"changes": ["hold cq/a"]}})


class PlayedReviewer:
    """Users may list Workloads in the namespace "own" only."""

    async def authorize(self, user: AuthenticatedUser, action: ApiAction) -> None:
        if action.namespace != "own":
            raise forbidden(user, action)


def row(key: str, why: str = "", by: str = "") -> dict[str, Any]:
    stop = {"workload": by, "message": f"Preempted for {by}"} if by else None
    known = {"workload": key, "job": f"Job/{key.partition('/')[2]}", "why": why, "stoppedBy": stop}
    return {"effect": "starts now", "before": known, "after": known}


class PlayedSource:
    """Answers when `go` is set."""

    def __init__(self, *rows: dict[str, Any], failure: WhatIfFailure | None = None) -> None:
        self.rows, self.failure = rows, failure
        self.go = asyncio.Event()
        self.go.set()
        self.asked: list[WhatIfQuestion] = []

    async def try_out(self, question: WhatIfQuestion) -> dict[str, Any]:
        self.asked.append(question)
        await self.go.wait()
        if self.failure is not None:
            raise self.failure
        namespaces = [each["after"]["workload"].partition("/")[0] for each in self.rows]
        return {
            "time": "",
            "notes": [],
            "problem": "",
            "changes": [],
            "leftOut": [],
            "workloads": list(self.rows),
            "counts": [{"namespace": n, "effect": "starts now", "count": 1} for n in namespaces],
            "sums": {"starts": 3, "gpusIdle": {}, "gpusBorrowed": {}},
            "gpusBeyondWorkers": 0,
        }


def make_answers(source: PlayedSource, *namespaces: str) -> WhatIfAnswers:
    rights = FleetRights(cast("RightsReviewer", PlayedReviewer()))
    return WhatIfAnswers(source, rights, lambda: ("own", "other", *namespaces))


async def test_one_is_computed_at_a_time_and_the_next_says_when_to_ask_again() -> None:
    source = PlayedSource()
    source.go.clear()
    answers = make_answers(source)
    first = asyncio.create_task(answers.answer(ADA, "", BODY))
    await asyncio.sleep(0)
    with pytest.raises(StatusRefusal, match="one what-if at a time") as refused:
        await answers.answer(BOB, "", BODY)
    assert (refused.value.code, refused.value.details) == (429, {"retryAfterSeconds": 2})
    source.go.set()
    await first
    await answers.answer(BOB, "", BODY)
    assert len(source.asked) == 2


async def test_a_user_who_asks_in_a_row_waits_and_others_do_not() -> None:
    answers = make_answers(PlayedSource())
    for _ in range(int(BURST)):
        await answers.answer(ADA, "", BODY)
    with pytest.raises(StatusRefusal, match="one more is possible every 6 s") as refused:
        await answers.answer(ADA, "", BODY)
    assert refused.value.code == 429
    assert refused.value.details is not None
    assert 1 <= refused.value.details["retryAfterSeconds"] <= 6
    await answers.answer(BOB, "", BODY)


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (WhatIfProblem.INVALID, 422),
        (WhatIfProblem.TOO_LARGE, 413),
        (WhatIfProblem.TOO_SLOW, 504),
        (WhatIfProblem.FAILED, 500),
    ],
)
async def test_a_failure_is_a_status_and_the_next_question_is_answered(
    problem: WhatIfProblem, code: int
) -> None:
    source = PlayedSource(failure=WhatIfFailure(problem, "because"))
    answers = make_answers(source)
    with pytest.raises(StatusRefusal, match="because") as refused:
        await answers.answer(ADA, "", BODY)
    assert refused.value.code == code
    source.failure = None
    await answers.answer(ADA, "", BODY)


async def test_strangers_are_counted_and_named_nowhere() -> None:
    words = "blocked by other/secret-job.; takes 2 nvidia.com/gpu of own/b, third/x"
    source = PlayedSource(row("own/a", why=words, by="other/secret-job"), row("other/secret-job"))
    found = (await make_answers(source, "third").answer(ADA, "", BODY))["status"]
    assert found["others"] == {"starts now": 1}
    (shown,) = found["workloads"]
    a = "a job of another namespace"
    assert shown["after"]["why"] == f"blocked by {a}.; takes 2 nvidia.com/gpu of own/b, {a}"
    assert shown["after"]["stoppedBy"] == {"workload": a, "message": f"Preempted for {a}"}
    assert "secret-job" not in str(found)


async def test_a_namespaced_answer_has_no_sums_of_the_fleet() -> None:
    body = orjson.dumps({"spec": {"job": {"metadata": {"name": "j"}}}})
    found = (await make_answers(PlayedSource()).answer(ADA, "own", body))["status"]
    assert found["sums"] == {"starts": 3}
    assert "gpusBeyondWorkers" not in found


async def test_a_change_that_names_a_job_needs_the_right_to_see_it() -> None:
    source = PlayedSource()
    body = orjson.dumps({"spec": {"changes": ["cancel other/job"]}})
    with pytest.raises(StatusRefusal) as refused:
        await make_answers(source).answer(ADA, "", body)
    assert refused.value.code == 403
    assert source.asked == []


def test_the_namespaces_that_a_question_names() -> None:
    changes = ("priority a/x=3", "cancel 'b/y'", "hold lq/c/z", 'finish "', "quota cq/d cpu=1")
    asked = WhatIfQuestion(changes=changes, job={}, job_namespace="e")
    assert find_named_namespaces(asked) == {"a", "b", "e"}


@pytest.mark.parametrize(
    ("spec", "namespace", "words"),
    [
        (None, "", "spec: must be an object"),
        ({"change": []}, "", "spec.change: is not known"),
        ({"changes": "hold cq/a"}, "", "must be a list of texts"),
        ({"changes": [1]}, "", "must be a list of texts"),
        ({"changes": ["x"] * 21}, "", "at most 20 changes"),
        ({"changes": ["x" * 501]}, "", "of 500 characters"),
        ({"changes": []}, "", "nothing to try"),
        ({"changes": ["hold cq/a"]}, "own", "for the whole fleet only"),
        ({"job": []}, "own", "must be the manifest of a job"),
        ({"job": {"metadata": []}}, "own", "spec.job.metadata: must be an object"),
        ({"job": {"metadata": {"namespace": "other"}}}, "own", "must be own, as in the path"),
        ({"job": {"metadata": {"namespace": 7}}}, "", "must be a text"),
    ],
)
def test_a_question_that_cannot_be_tried_is_refused_in_words(
    spec: Any, namespace: str, words: str
) -> None:
    with pytest.raises(StatusRefusal, match=words) as refused:
        read_question(orjson.dumps({"spec": spec}), namespace)
    assert refused.value.code in {400, 422}
