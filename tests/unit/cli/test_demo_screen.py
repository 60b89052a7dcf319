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


def draw(
    *tracks: Track, exited: bool = False, width: int = 140, height: int = 40, dashboard: str = ""
) -> str:
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
    console = Console(file=io.StringIO(), width=width, height=height)
    screen = DemoScreen(world, tracker, console, dashboard=dashboard)
    console.print(screen.render(now=100.0))
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
    assert rows[0] == ["research", "bert-pretrain", "8", "Running", "2s", "8s", "worker-a100"]
    assert rows[2][-3:] == ["1s", "4s", "worker-h100"]


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


def test_a_job_that_was_stopped_waits_and_does_not_run_on() -> None:
    stopped = Track(
        job=ONCE[6], submitted_at=80, stage=JobStage.QUEUED, running_at=85, reason=NO_QUOTA
    )
    row = next(line for line in draw(stopped).splitlines() if stopped.job.name in line)
    assert row.split()[3:5] == ["Queued", "20s"]
    assert row.split()[5] == "lacks"


QUOTA = "insufficient unused quota for nvidia.com/gpu in flavor"
NO_QUOTA = f"WaitingForQuota: couldn't assign flavors to pod set main: {QUOTA} a100, 3 more needed"


def test_a_job_waits_for_so_many_of_a_flavor() -> None:
    reasons = {
        NO_QUOTA: "lacks 3 a100",
        f"{NO_QUOTA}, {QUOTA} h100, 1 more needed": "or 1 h100",
    }
    for reason, words in reasons.items():
        text = draw(Track(job=ONCE[6], submitted_at=95, stage=JobStage.QUEUED, reason=reason))
        assert words in text
        assert "couldn't assign" not in text


def test_a_terminal_of_80_by_24_has_the_address_and_many_jobs_and_cuts_nothing() -> None:
    waiting = [
        Track(job=job, submitted_at=95, stage=JobStage.QUEUED, reason=NO_QUOTA) for job in ONCE
    ]
    text = draw(RUNNING, *waiting, width=80, height=24, dashboard="http://127.0.0.1:8080/?key=k")
    lines = text.splitlines()
    assert lines[0].startswith("Dashboard: http://127.0.0.1:8080/?key=k")
    assert len(lines) <= 24
    assert "…" not in text
    assert sum("lacks 3 a100" in line for line in lines) >= 8
    assert sum(" ".join(line.split()).startswith("research 3 a100, 1 h100") for line in lines) == 1


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
