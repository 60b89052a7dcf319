"""The live screen of the demo: queues, clusters, and the stage of every job."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from multiqueue.runtime.demo.objects import TEAMS, WORKERS, DemoWorker
from multiqueue.runtime.demo.tracker import PROMISE, JobStage, Track, Tracker

if TYPE_CHECKING:
    from rich.console import RenderableType

    from multiqueue.runtime.demo.world import DemoWorld

REFRESH_SECONDS = 0.25
LOW = 32
"""A terminal with fewer lines than this gets the short footer, so that jobs have room."""
COLOURS = {
    JobStage.SUBMITTED: "dim",
    JobStage.QUEUED: "yellow",
    JobStage.DISPATCHED: "cyan",
    JobStage.STARTING: "cyan",
    JobStage.MOVING: "magenta",
    JobStage.RUNNING: "green",
    JobStage.SUCCEEDED: "dim green",
    JobStage.FAILED: "red",
    JobStage.IMPOSSIBLE: "magenta",
    JobStage.REFUSED: "red",
}
_HOLDS_GPUS = frozenset({JobStage.STARTING, JobStage.RUNNING})
_WAITS = frozenset({JobStage.SUBMITTED, JobStage.QUEUED, JobStage.DISPATCHED})
_SAYS_ENOUGH = frozenset({JobStage.RUNNING, JobStage.SUCCEEDED})
_ORDER = (
    JobStage.RUNNING,
    JobStage.STARTING,
    JobStage.MOVING,
    JobStage.DISPATCHED,
    JobStage.QUEUED,
    JobStage.SUBMITTED,
)


class DemoScreen:
    """Redraws four times a second; without a terminal it prints each change of a job instead.

    Args:
        world: The clusters.
        tracker: Knows the jobs.
        console: Where to draw.
        dashboard: The address of the dashboard; empty for none.
    """

    def __init__(
        self,
        world: DemoWorld,
        tracker: Tracker,
        console: Console | None = None,
        *,
        dashboard: str = "",
    ) -> None:
        self._dashboard = dashboard
        self._world = world
        self._tracker = tracker
        self._console = console or Console()
        self._printed: dict[str, JobStage] = {}

    async def run(self) -> None:
        """Show the demo until cancelled."""
        if not self._console.is_terminal:
            if self._dashboard:
                self._console.print(f"Dashboard: {self._dashboard}", markup=False, soft_wrap=True)
            await self._print_changes()
        with Live(console=self._console, screen=False, auto_refresh=False) as live:
            while True:
                live.update(self.render(asyncio.get_running_loop().time()), refresh=True)
                await asyncio.sleep(REFRESH_SECONDS)

    async def _print_changes(self) -> None:
        while True:
            self._tracker.changed.clear()
            for key, track in list(self._tracker.tracks.items()):
                if self._printed.get(key) is not track.stage:
                    self._printed[key] = track.stage
                    where = f" on {track.worker}" if track.worker else ""
                    words = f"{key}: {track.stage}{where} {track.reason}".rstrip()
                    self._console.print(words, markup=False, soft_wrap=True)
            await self._tracker.changed.wait()

    def render(self, now: float) -> RenderableType:
        """Return the whole screen."""
        tracks = list(self._tracker.tracks.values())
        size = self._console.size
        overview = _columns(_render_queues(tracks), _render_clusters(tracks))
        top = (self._render_headline(), "", overview, "")
        footer = self._render_footer(short=size.height < LOW)
        without_jobs = Group(*top, _render_jobs([], now), footer)
        room = max(3, size.height - 1 - len(self._console.render_lines(without_jobs)))
        return Group(*top, _render_jobs(sorted(tracks, key=_job_order)[:room], now), footer)

    def _render_headline(self) -> Text:
        where = f"Dashboard: {self._dashboard}   " if self._dashboard else ""
        return Text(f"{where}Ctrl-C ends it", style="bold")

    def _render_footer(self, *, short: bool) -> RenderableType:
        """Return how to point kubectl at the clusters, and the state of the manager.

        Args:
            short: Name only the manager's kubeconfig, and the manager only if it has ended.
        """
        paths = list(self._world.kubeconfigs.values())
        lines = [Text(f"export KUBECONFIG={path}") for path in paths[: 1 if short else None]]
        manager = self._world.manager
        if manager.exited.is_set():
            ended = f"The manager ended ({manager.exit_text}). Start it again: "
            lines.append(Text(ended + manager.command_line, style="bold red"))
        elif not short:
            lines.append(Text(f"Manager: pid {manager.pid}: {manager.command_line}", style="dim"))
        if short:
            return Group(*lines)
        title = "Point kubectl at a cluster"
        return Panel(Group(*lines), title=title, title_align="left", border_style="dim")


def _table(title: str, *, expand: bool = False) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        expand=expand,
        show_edge=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _columns(left: RenderableType, right: RenderableType) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(left, right)
    return grid


def _render_queues(tracks: list[Track]) -> Table:
    table = _table("Queues")
    for name in ("team", "quota", "wait", "run", "GPUs"):
        left = name in {"team", "quota"}
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for team in TEAMS:
        own = [track for track in tracks if track.job.team == team.name]
        waiting = sum(1 for track in own if track.stage in {JobStage.SUBMITTED, JobStage.QUEUED})
        admitted = [track for track in own if track.stage in {JobStage.DISPATCHED, *_HOLDS_GPUS}]
        quota = ", ".join(f"{count} {flavor}" for flavor, count in team.gpus.items())
        gpus = sum(track.job.gpus for track in admitted)
        table.add_row(team.name, quota, str(waiting), str(len(admitted)), str(gpus))
    return table


def _render_clusters(tracks: list[Track]) -> Table:
    table = _table("Clusters")
    for name in ("worker", "GPUs in use", "jobs"):
        table.add_column(name, justify="right" if name == "jobs" else "left", no_wrap=True)
    for worker in WORKERS:
        there = [t for t in tracks if t.worker == worker.name and t.stage in _HOLDS_GPUS]
        table.add_row(worker.name, _bar(worker, sum(t.job.gpus for t in there)), str(len(there)))
    return table


def _bar(worker: DemoWorker, used: int) -> Text:
    shown = min(used, worker.gpus)
    bar = Text("■" * shown, style="green")
    bar.append("□" * (worker.gpus - shown), style="dim")
    bar.append(f" {used}/{worker.gpus} {worker.flavor.upper()}")
    return bar


def _render_jobs(tracks: list[Track], now: float) -> Table:
    table = _table("Jobs", expand=True)
    for name in ("team", "job", "GPUs", "stage", "waited", "ran"):
        right = name in {"GPUs", "waited", "ran"}
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    table.add_column("worker or reason", no_wrap=True, overflow="ellipsis", ratio=1)
    for track in tracks:
        waited, ran = track.waited_seconds, track.ran_seconds
        if track.stage in _WAITS or (waited is None and not track.stage.is_final):
            waited, ran = now - track.submitted_at, None  # one that was stopped, too
        elif ran is None and track.running_at is not None:
            ran = now - track.running_at
        kind = f" {track.job.accelerator}" if track.job.accelerator else ""
        table.add_row(
            track.job.team,
            track.job.name,
            f"{track.job.gpus}{kind}",
            Text(str(track.stage), style=COLOURS[track.stage]),
            _seconds(waited),
            _seconds(ran),
            _whereabouts(track),
        )
    return table


def _whereabouts(track: Track) -> Text:
    """Return the worker, and why a job waits or failed."""
    where = Text(track.worker or " ".join(track.nominated))
    if track.reason and track.stage not in _SAYS_ENOUGH:
        where.append((": " if where.plain else "") + _brief(track.reason), style="dim")
    return where


def _job_order(track: Track) -> tuple[int, float]:
    """Sort unfinished jobs first, the furthest on top; then ended ones, the latest on top."""
    if track.stage.is_final:
        return (len(_ORDER), -(track.ended_at or 0.0))
    return (_ORDER.index(track.stage), track.submitted_at)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.0f}s"


_SHORTFALL = re.compile(
    r"insufficient unused quota for \S+ in flavor (?P<flavor>[^\s,]+), (?P<count>\d+) more needed"
)
_BOILERPLATE = (
    "WaitingForQuota: ",
    "couldn't assign flavors to pod set main: ",
)


def _brief(reason: str) -> str:
    """Return the numbers only, so that they can be seen in a narrow terminal."""
    promise = PROMISE.search(reason)
    if promise is not None:
        return f"room is kept for it, starts by {promise['at'][11:]}"
    missing = [f"{each['count']} {each['flavor']}" for each in _SHORTFALL.finditer(reason)]
    if missing:
        return f"lacks {' or '.join(missing)}"
    for text in _BOILERPLATE:
        reason = reason.replace(text, "")
    return reason
