"""The live screen, drawn once."""

from __future__ import annotations

import asyncio
import contextlib
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from multiqueue.cli.demo_screen import DemoScreen
from multiqueue.runtime.demo.jobs import ONCE
from multiqueue.runtime.demo.tracker import JobStage, Track


def draw(*tracks: Track, exited: bool = False) -> str:
    manager = SimpleNamespace(
        exited=SimpleNamespace(is_set=lambda: exited),
        exit_text="signal SIGKILL",
        command_line="multiqueue run --config c",
        pid=7,
    )
    world: Any = SimpleNamespace(
        kubeconfigs={"manager": Path("/data/manager.kubeconfig")}, manager=manager
    )
    tracker: Any = SimpleNamespace(tracks={track.job.key: track for track in tracks})
    console = Console(file=io.StringIO(), width=140, height=40)
    console.print(DemoScreen(world, tracker, console).render(now=100.0))
    text: str = console.file.getvalue()
    return text


RUNNING = Track(
    job=ONCE[0], submitted_at=90, stage=JobStage.RUNNING, worker="worker-a100", running_at=92
)
WAITING = Track(job=ONCE[6], submitted_at=95, stage=JobStage.QUEUED, reason="WaitingForQuota: 8")
ENDED = Track(
    job=ONCE[2],
    submitted_at=80,
    stage=JobStage.SUCCEEDED,
    worker="worker-h100",
    running_at=81,
    stopped_at=85,
    ended_at=86,
)


def test_jobs_are_listed_from_the_furthest_to_the_ended() -> None:
    lines = draw(ENDED, WAITING, RUNNING).splitlines()
    rows = [line.split() for line in lines if any(t.job.name in line for t in ALL)]
    assert [row[1] for row in rows] == ["bert-pretrain", "vit-large", "embed-batch"]
    assert rows[0] == ["research", "bert-pretrain", "8", "Running", "worker-a100", "2s", "8s"]
    assert rows[2][-3:] == ["worker-h100", "1s", "4s"]


ALL = (RUNNING, WAITING, ENDED)


def test_clusters_show_their_gpus_and_queues_who_waits() -> None:
    text = draw(*ALL)
    assert "8/8 A100" in text
    assert "0/4 H100" in text
    training = next(line.split() for line in text.splitlines() if "4 a100" in line)
    assert training[training.index("h100") + 1] == "1"


def test_the_screen_tells_how_to_point_kubectl_and_that_the_manager_is_gone() -> None:
    assert "export KUBECONFIG=/data/manager.kubeconfig" in draw()
    gone = draw(exited=True)
    assert "The manager ended (signal SIGKILL)" in gone
    assert "multiqueue run --config c" in gone


def test_why_a_job_waits_begins_with_the_numbers() -> None:
    shortfall = "insufficient unused quota for nvidia.com/gpu in flavor a100, 3 more needed"
    reason = f"WaitingForQuota: couldn't assign flavors to pod set main: {shortfall}"
    text = draw(Track(job=ONCE[6], submitted_at=95, stage=JobStage.QUEUED, reason=reason))
    assert "insufficient unused quota for nvidia.com/gpu" in text
    assert "couldn't assign" not in text


async def test_without_a_terminal_each_change_is_a_line_however_long() -> None:
    reason = "offered to [worker-a100]: " + "it fits " * 30
    track = Track(job=ONCE[0], submitted_at=90, stage=JobStage.QUEUED, reason=reason)
    tracker: Any = SimpleNamespace(tracks={track.job.key: track}, changed=asyncio.Event())
    console = Console(file=io.StringIO(), width=40)
    screen = DemoScreen(SimpleNamespace(), tracker, console)  # type: ignore[arg-type]
    task = asyncio.create_task(screen.run())
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert console.file.getvalue().splitlines() == [f"{track.job.key}: Queued {reason}".rstrip()]
