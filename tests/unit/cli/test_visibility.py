"""What is made of the manager's answers, and of those that do not come."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from multiqueue.cli.visibility import (
    PAGE,
    SECONDS,
    TRIES,
    ManagerAnswer,
    Places,
    QueuePosition,
    explain_workload,
    read_cluster_queue,
    read_local_queue,
)
from multiqueue.kube.client import KubeClient
from multiqueue.kube.errors import RequestTimeout, TransportError, build_api_error
from multiqueue.visibility import refusals
from tests.unit.cli.builders import make_answer

EXPLANATION = "/apis/remote.multiqueue.dev/v1alpha1/namespaces/team/workloads/w/explanation"
LOCAL = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/lq/pendingworkloads"
WHOLE = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/cq/pendingworkloads"
FLAVOR = {
    "name": "a100",
    "resource": "nvidia.com/gpu",
    "requested": "2",
    "nominal": "4",
    "used": "3",
    "free": "1",
    "borrowable": "0",
    "verdict": "1 more needed",
}
STANDBY = {
    "leading": False,
    "clusterQueue": "cq",
    "pending": True,
    "pendingInClusterQueue": 2,
    "positionInClusterQueue": 1,
    "positionInLocalQueue": 0,
    "flavors": [FLAVOR],
}
LEADER = {**STANDBY, "leading": True, "reason": "WaitingForQuota", "message": "1 more needed"}


def make_page(*positions: int) -> dict[str, Any]:
    """Workloads "w", "w2", "w3" and so on of one LocalQueue, by their positions from 0."""
    return {
        "items": [
            {
                "metadata": {"name": f"w{at}" if at > 1 else "w", "namespace": "team"},
                "positionInClusterQueue": at,
                "positionInLocalQueue": at - 1,
            }
            for at in positions
        ]
    }


POSITIONS = make_page(1)
PLACE = QueuePosition(in_cluster_queue=2, in_local_queue=1)
ABSENT = build_api_error(404, b"404 page not found\n")
FORBIDDEN = build_api_error(403, {"message": 'User "ann" cannot get', "reason": "Forbidden"})
DOWN = build_api_error(503, b"error trying to reach service: connection refused")


def refused(refusal: refusals.StatusRefusal) -> Exception:
    return build_api_error(refusal.code, refusal.body())


class Manager:
    """Answers by path; the last answer of a path stays."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = {
            path: list(found) if isinstance(found, list) else [found]
            for path, found in answers.items()
        }
        self.asked: list[str] = []
        self.offsets: list[str] = []

    async def request(self, method: str, path: str, **options: Any) -> Any:
        assert (method, options["timeout"]) == ("GET", SECONDS)
        self.asked.append(path)
        self.offsets += filter(None, [options["params"].get("offset")])
        found = self._answers.get(path, [ABSENT])
        answer = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(body=orjson.dumps(answer))


def client(answers: Mapping[str, Any]) -> KubeClient:
    return cast("KubeClient", Manager(answers))


async def explain(answers: Mapping[str, Any]) -> ManagerAnswer:
    return await explain_workload(client(answers), "team", "w", "lq")


async def test_the_leader_tells_everything() -> None:
    told = {**LEADER, "fairSharing": {"weightedShare": 250}}
    told["pastUsage"] = [{"localQueue": "", "usage": None}, {"localQueue": "team/lq", "usage": 1.5}]
    assert await explain({EXPLANATION: {"status": told}}) == make_answer(
        reason="WaitingForQuota",
        message="1 more needed",
        share=250,
        past_usage=(("", None), ("team/lq", 1.5)),
    )


async def test_who_reaches_a_standby_asks_again_for_the_leader() -> None:
    manager = Manager({EXPLANATION: [{"status": STANDBY}, {"status": LEADER}]})
    answer = await explain_workload(cast("KubeClient", manager), "team", "w", "lq")
    assert answer == make_answer(reason="WaitingForQuota", message="1 more needed")


async def test_a_standby_tells_all_but_the_reason_and_the_note_says_so() -> None:
    manager = Manager({EXPLANATION: {"status": STANDBY}})
    answer = await explain_workload(cast("KubeClient", manager), "team", "w", "lq")
    problem = (
        "the manager that answered does not lead, so the reason is the one last written on the "
        "Workload"
    )
    assert answer == make_answer(problem=problem)
    assert manager.asked == [EXPLANATION] * TRIES


async def test_of_a_workload_that_waits_no_more_nothing_is_missing() -> None:
    status = {"leading": False, "clusterQueue": "cq", "pending": False}
    assert await explain({EXPLANATION: {"status": status}}) == ManagerAnswer(cluster_queue="cq")


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        pytest.param(
            refused(refusals.no_such_path()),
            "the manager is older than this command or is no multiqueue: it tells positions only; "
            "numbers are missing",
            id="an older manager",
        ),
        pytest.param(
            ABSENT,
            "the manager is older than this command or is no multiqueue: it tells positions only; "
            "numbers are missing",
            id="upstream",
        ),
        pytest.param(
            FORBIDDEN,
            'you may not ask the manager: User "ann" cannot get; numbers are missing',
            id="no right to explanations",
        ),
    ],
)
async def test_where_nothing_is_explained_the_position_is_known(
    error: Exception, problem: str
) -> None:
    got = await explain({EXPLANATION: error, LOCAL: POSITIONS})
    assert got == ManagerAnswer(problem=problem, place=PLACE)


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        pytest.param(
            {},
            "no manager answers which Workloads wait: none runs, or it runs without the gate "
            "VisibilityOnDemand or without config/visibility; positions and numbers are missing",
            id="no manager",
        ),
        pytest.param(
            {EXPLANATION: FORBIDDEN, LOCAL: FORBIDDEN},
            'you may not ask the manager: User "ann" cannot get; positions and numbers are missing',
            id="no right at all",
        ),
        pytest.param(
            {EXPLANATION: DOWN},
            "the manager does not answer: error trying to reach service: connection refused; "
            "positions and numbers are missing",
            id="it is down",
        ),
        pytest.param(
            {EXPLANATION: RequestTimeout("late")},
            "the manager has not answered in time; positions and numbers are missing",
            id="it hangs",
        ),
        pytest.param(
            {EXPLANATION: refused(refusals.workload_not_found("w"))},
            "the manager has not seen this Workload yet",
            id="it is behind",
        ),
        pytest.param(
            {EXPLANATION: refused(refusals.too_many_requests())},
            "the manager refuses to answer: too many requests, please try again later; positions "
            "and numbers are missing",
            id="it has too much to do",
        ),
    ],
)
async def test_where_the_manager_cannot_be_asked_the_reason_is_told(
    answers: Mapping[str, Any], problem: str
) -> None:
    assert await explain(answers) == ManagerAnswer(problem=problem)


async def test_a_cluster_that_cannot_be_reached_is_no_manager_that_is_silent() -> None:
    with pytest.raises(TransportError):
        await explain({EXPLANATION: TransportError("no route to host")})


async def test_positions_in_queues_count_from_one() -> None:
    want = Places(by_key={"team/w": PLACE})
    asked = client({LOCAL: POSITIONS, WHOLE: POSITIONS})
    assert await read_local_queue(asked, "team", "lq") == want
    assert await read_cluster_queue(asked, "cq") == want


async def test_a_deep_queue_is_asked_for_in_pages() -> None:
    first, rest = range(1, PAGE + 1), range(PAGE + 1, PAGE + 3)
    manager = Manager({WHOLE: [make_page(*first), make_page(*rest)]})
    got = await read_cluster_queue(cast("KubeClient", manager), "cq")
    assert len(got.by_key) == PAGE + 2
    assert got.by_key[f"team/w{PAGE + 2}"].in_cluster_queue == PAGE + 3
    assert manager.offsets == ["0", str(PAGE)]


async def test_nobody_waits_in_a_queue_that_is_not_there() -> None:
    missing = refused(refusals.queue_not_found("localqueue", "lq"))
    assert await read_local_queue(client({LOCAL: missing}), "team", "lq") == Places()


async def test_positions_that_are_not_told_are_named() -> None:
    got = await read_cluster_queue(client({WHOLE: DOWN}), "cq")
    assert got.problem == (
        "the manager does not answer: error trying to reach service: connection refused; "
        "positions are missing"
    )
