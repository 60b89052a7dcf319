"""The process that computes what-ifs: what it reads, and how it says what is wrong."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from multiqueue.api.v1beta2.meta import format_time
from multiqueue.runtime.demo.jobs import build_job
from multiqueue.whatif import child
from multiqueue.whatif.difference import Effect, Effected
from multiqueue.whatif.documents import tried_to_dict
from multiqueue.whatif.snapshot import Snapshot
from multiqueue.whatif.trial import try_out
from tests.unit.whatif.worlds import make_job, make_snapshot

GPU = "nvidia.com/gpu"


def make_lines(snapshot: Snapshot, *changes: str, **asked: Any) -> list[bytes]:
    header = {
        "changes": list(changes),
        "job": None,
        "namespace": "",
        "snapshot": {
            "time": format_time(snapshot.taken_at),
            "program": "test",
            "configuration": snapshot.configuration,
            "notes": ["a note"],
        },
        **asked,
    }
    objects = [
        {"cluster": cluster, "kind": kind, "object": {**obj, "kind": ""}}
        for cluster, kinds in snapshot.clusters.items()
        for kind, by_key in kinds.items()
        for obj in by_key.values()
    ]
    return [orjson.dumps(header), *map(orjson.dumps, objects)]


async def ask(lines: list[bytes]) -> Any:
    """Ask in a process of its own, as the manager does."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "multiqueue.whatif.child"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(b"\n".join([*lines, b""]))
    assert process.returncode == 0
    return orjson.loads(output)


async def test_the_process_says_what_replay_says() -> None:
    snapshot = make_snapshot(*(make_job("research", f"job-{number}", 2) for number in range(6)))
    change = f"quota cq/research {GPU}=2"
    tried = try_out(snapshot, [change], lambda *_: ())
    found = await ask(make_lines(snapshot, change))
    assert found.pop("counts") == [
        {"namespace": "research", "effect": effect, "count": count}
        for effect, count in Counter(str(e.effect) for e in tried.difference.effected).items()
    ]
    wanted = tried_to_dict(snapshot, tried)
    assert found == {**wanted, "notes": ["a note"], "program": "test"}
    assert found["workloads"]


def test_a_job_is_submitted_after_the_changes_and_comes_back_with_its_workload() -> None:
    snapshot = make_snapshot(make_job("research", "first", 2))
    job = build_job(make_job("research", "new", 1))
    lines = make_lines(snapshot, "weight cq/research=2", job=job, namespace="research")
    found = child.answer_lines(lines)
    assert found["job"]["job"] == "Job/new"
    assert found["job"]["object"]["spec"]["queueName"] == "research"
    assert found["changes"][-1] == f"submitted: {found['job']['workload']}"


def test_a_namespace_with_many_rows_leaves_room_for_others() -> None:
    def make(namespace: str, count: int) -> list[Effected]:
        keys = (f"{namespace}/job-{number}" for number in range(count))
        return [Effected(key=key, effect=Effect.LATER, before=None, after=None) for key in keys]

    kept = child.choose_rows([*make("large", 900), *make("small", 3)])
    assert Counter(key.partition("/")[0] for key in kept) == {"large": 200, "small": 3}
    assert len(child.choose_rows([row for n in range(9) for row in make(f"n{n}", 150)])) == 1000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("submit job.yaml", "give the manifest in spec.job"),
        ("quota cq/none cpu=1", 'ClusterQueue "none" is not in the snapshot'),
        ("dance", 'there is no change "dance"'),
    ],
)
def test_a_change_that_cannot_be_made_is_told(change: str, words: str) -> None:
    found = child.answer_lines(make_lines(make_snapshot(), change))
    assert found["error"] == "change"
    assert words in found["message"]


def test_a_configuration_that_cannot_be_read_is_told() -> None:
    lines = make_lines(make_snapshot())
    header = orjson.loads(lines[0])
    header["snapshot"]["configuration"] = {"featureGates": 7}
    found = child.answer_lines([orjson.dumps(header), *lines[1:]])
    assert found["error"] == "snapshot"
    assert "configuration cannot be read" in found["message"]


LITTLE_MEMORY = """
import resource
from pathlib import Path

from multiqueue.whatif import child

pages = int(Path("/proc/self/statm").read_text().split()[0])
child.MEMORY = pages * resource.getpagesize() + (64 << 20)
child.run()
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
async def test_who_asks_for_more_than_the_memory_is_told() -> None:
    """The question is larger than what the process may have beside itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", LITTLE_MEMORY),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    lines = make_lines(make_snapshot(), job=None, padding="x" * (80 << 20))
    output, _ = await process.communicate(b"\n".join([*lines, b""]))
    found = orjson.loads(output)
    assert found["error"] == "too large"
    assert found["message"].startswith("it takes more than ")
