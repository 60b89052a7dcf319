"""Logs that are followed over cuts, and what the options about them mean."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from multiqueue.cli.errors import CliError
from multiqueue.cli.remote.log_streams import LogOptions, follow_log, has_log
from multiqueue.cli.remote.selection import pick_pods
from multiqueue.kube.errors import ApiError, NotFound, TransportError
from multiqueue.kube.retries import RetryPolicy

POD = {"metadata": {"name": "train-a", "namespace": "team", "uid": "u"}}
CUT = TransportError("the connection broke off")
FOLLOW = LogOptions(follow=True, tail=5, since_seconds=60)


class Cluster:
    """A place whose log comes in attempts: pieces, and how each attempt ends."""

    cluster = "w1"

    def __init__(self, *attempts: tuple[list[bytes], Exception | None]) -> None:
        self.asked: list[dict[str, str]] = []
        self._attempts = list(attempts)

    async def list_pods(self) -> list[dict[str, Any]]:
        return [POD]

    async def list_events(self) -> list[dict[str, Any]]:
        return []

    async def watch(self, what: str) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        yield "ADDED", {"what": what}

    async def open_log(self, pod: str, options: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        assert pod == "train-a"
        self.asked.append(dict(options))
        pieces, end = self._attempts.pop(0)
        for piece in pieces:
            yield piece
        if end is not None:
            raise end


async def follow(place: Cluster, *, current: bool = True) -> tuple[list[str], list[str]]:
    """What is printed of the log, and what is told."""
    lines: list[str] = []
    told: list[str] = []
    await follow_log(
        place,
        POD,
        FOLLOW,
        lambda line, _: lines.append(line),
        say=told.append,
        is_current=lambda: current,
        retries=RetryPolicy(first=0.0),
    )
    return lines, told


async def test_a_log_goes_on_after_the_last_line_and_lines_of_one_moment_are_told_apart() -> None:
    place = Cluster(
        ([b"", b"T1 a\nT2 b\nT2", b" c\n"], CUT),
        ([b"T2 b\nT2 c\nT2 d\n"], CUT),
        ([b"T2 b\nT2 c\nT2 d\nT3 e"], None),
    )
    lines, told = await follow(place)
    assert lines == ["a", "b", "c", "d", "e"]
    assert [asked.get("sinceTime") for asked in place.asked] == [None, "T2", "T2"]
    assert place.asked[0]["tailLines"] == "5"
    assert "tailLines" not in place.asked[1]
    assert "sinceSeconds" not in place.asked[1]
    assert told[0] == "the log of train-a was cut, waiting for w1: the connection broke off"


async def test_empty_lines_and_a_last_line_without_end_are_printed() -> None:
    lines, _ = await follow(Cluster(([b"T1 \nT1 x\nT2 no end"], None)))
    assert lines == ["", "x", "no end"]


async def test_a_pod_of_a_cluster_that_the_job_left_is_not_waited_for() -> None:
    assert await follow(Cluster(([b"T1 a\n"], CUT)), current=False) == (["a"], [])
    gone = NotFound(404, reason="NotFound", message="gone")
    assert await follow(Cluster(([b"T1 a\n"], gone))) == (["a"], [])


async def test_what_the_worker_refuses_is_told() -> None:
    refusal = ApiError(400, reason="BadRequest", message="container x is not valid for pod train-a")
    with pytest.raises(CliError, match="train-a: container x is not valid"):
        await follow(Cluster(([], refusal)))


def test_pods_are_chosen_by_name_or_all_or_the_first() -> None:
    pods = [{"metadata": {"name": name}} for name in ("a", "b")]
    assert pick_pods(pods, "", all_pods=False, job="j") == pods[:1]
    assert pick_pods(pods, "", all_pods=True, job="j") == pods
    assert pick_pods(pods, "b", all_pods=False, job="j") == pods[1:]
    with pytest.raises(CliError, match='j has no pod "c"; there are: a, b'):
        pick_pods(pods, "c", all_pods=False, job="j")
    with pytest.raises(CliError, match="it has no pods now"):
        pick_pods([], "c", all_pods=False, job="j")


@pytest.mark.parametrize(
    ("status", "container", "has"),
    [
        ({}, "", False),
        ({"containerStatuses": [{"name": "c", "state": {"waiting": {}}}]}, "", False),
        ({"containerStatuses": [{"name": "c", "state": {"running": {}}}]}, "", True),
        ({"containerStatuses": [{"name": "c", "state": {"running": {}}}]}, "d", False),
        ({"initContainerStatuses": [{"name": "i", "state": {"terminated": {}}}]}, "i", True),
        ({"containerStatuses": [{"name": "c", "state": {}, "lastState": {"x": {}}}]}, "c", True),
    ],
)
def test_a_log_is_there_once_a_container_has_run(status: Any, container: str, *, has: bool) -> None:
    assert has_log({"status": status}, container) is has
