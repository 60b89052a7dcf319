"""``multiqueue logs``: show the output of a job's pods, whatever cluster it runs on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import (
    ClusterTarget,
    cluster_options,
    connect,
    namespace_option,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.durations import DURATION
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.cli.output import echo
from multiqueue.cli.remote.selection import pick_pods

if TYPE_CHECKING:
    from multiqueue.api.v1beta2 import Workload
    from multiqueue.cli.remote.following import Follower
    from multiqueue.cli.remote.log_streams import LogOptions
    from multiqueue.cli.remote.places import JobPlaces
    from multiqueue.jobs.belongings import Json

LAST_LINES_SECONDS = 10.0
"""How long logs may go on after a job has ended or moved: the manager removes its pods."""


@click.command("logs")
@click.argument("job", metavar="JOB", shell_complete=names_of("jobs"))
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, wherever it is.")
@click.option("--pod", default="", metavar="NAME", help="One of its pods; the first by default.")
@click.option("--all-pods", is_flag=True, help="All pods, each line with its cluster and pod.")
@click.option("-c", "--container", default="", metavar="NAME", help="A container of the pods.")
@click.option("-p", "--previous", is_flag=True, help="The run before the last restart.")
@click.option(
    "--since", type=DURATION, metavar="DURATION", help="Only lines of the last 45s, 10m, 2h."
)
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last lines.")
@click.option("--timestamps", is_flag=True, help="Each line with its time.")
@click.option(
    "--max-log-requests",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many logs are followed at once.",
)
@system_namespace_option
@namespace_option
@cluster_options
def command(  # noqa: PLR0913 - one an option
    *,
    job: str,
    follow: bool,
    pod: str,
    all_pods: bool,
    container: str,
    previous: bool,
    since: timedelta | None,
    tail: int | None,
    timestamps: bool,
    max_log_requests: int,
    system_namespace: str,
    target: ClusterTarget,
) -> None:
    """Print the logs of a job's pods, from the worker cluster that runs it or from this one.

    With -f the job is followed to the next cluster when it moves, and over a worker that is out of
    reach for a while; interruptions are reported on stderr.
    """
    from multiqueue.cli.remote.log_streams import LogOptions

    if pod and all_pods:
        raise UsageProblem("choose --pod or --all-pods")
    if follow and previous:
        raise UsageProblem("a run that has ended cannot be followed; leave out -f or --previous")
    options = LogOptions(
        container=container,
        follow=follow,
        previous=previous,
        since_seconds=None if since is None else max(1, int(since.total_seconds())),
        tail=tail,
        timestamps=timestamps,
    )
    printer = _Printer(job, options, pod=pod, all_pods=all_pods, limit=max_log_requests)
    run_async(printer.run(target, system_namespace))


class _Printer:
    def __init__(
        self, job: str, options: LogOptions, *, pod: str, all_pods: bool, limit: int
    ) -> None:
        self._job = job
        self._options = options
        self._pod = pod
        self._all_pods = all_pods
        self._limit = limit
        self._streams: dict[str, asyncio.Task[None]] = {}

    async def run(self, target: ClusterTarget, system_namespace: str) -> None:
        """Print until there is nothing more to print."""
        from multiqueue.cli.find import find_workload
        from multiqueue.cli.remote.following import Follower
        from multiqueue.cli.remote.places import JobPlaces

        async with connect(target) as (client, namespace), AsyncExitStack() as stack:
            workload = await find_workload(client, namespace, self._job)
            places = JobPlaces(client, stack, system_namespace=system_namespace)
            follower = Follower(client, workload, places, self._say)
            if self._options.follow and not follower.is_over:
                await self._follow(follower)
            else:
                await self._print(workload, places)

    async def _print(self, workload: Workload, places: JobPlaces) -> None:
        from multiqueue.cli.remote.log_streams import has_log, read_log
        from multiqueue.cli.remote.standing import list_pods

        place, pods = await list_pods(workload, places)
        chosen = pick_pods(pods, self._pod, all_pods=self._all_pods, job=self._job)
        if not chosen:
            raise CliError(f"{self._job} has no pods now")
        if len(pods) > len(chosen) and not self._pod:
            name = chosen[0]["metadata"]["name"]
            self._say(f"{len(pods)} pods, this is {name}; --all-pods shows all")
        for pod in chosen:
            if self._all_pods and not has_log(pod, self._options.container):
                self._say(f"{pod['metadata']['name']} has not started yet")
                continue
            await read_log(place, pod, self._options, self._emit)

    async def _follow(self, follower: Follower) -> None:
        chosen: dict[str, str] = {}
        try:
            async with aclosing(follower.follow("pods")) as changes:
                async for seen in changes:
                    self._raise_failures()
                    if seen.place is None or seen.obj is None or seen.deleted:
                        continue
                    pod, place = seen.obj, seen.place
                    if self._is_meant(pod, chosen, place.cluster):
                        self._begin(pod, place, follower)
            if self._streams:
                await asyncio.wait(self._streams.values(), timeout=LAST_LINES_SECONDS)
            self._raise_failures()
        finally:
            for task in self._streams.values():
                task.cancel()
            if self._streams:
                await asyncio.wait(self._streams.values())

    def _is_meant(self, pod: Json, chosen: dict[str, str], cluster: str) -> bool:
        """Whether the log of a pod is wanted; by default that of the first pod of each cluster."""
        from multiqueue.cli.remote.log_streams import has_log

        name = pod["metadata"]["name"]
        if not has_log(pod, self._options.container):
            return False
        if self._all_pods or self._pod:
            return self._pod in {"", name}
        first = chosen.setdefault(cluster, name)
        return bool(first == name)

    def _begin(self, pod: Json, place: Any, follower: Follower) -> None:
        from multiqueue.cli.remote.log_streams import follow_log

        uid = pod["metadata"]["uid"]
        if uid in self._streams:
            return
        under_way = sum(not task.done() for task in self._streams.values())
        if under_way >= self._limit:
            raise CliError(
                f"more than {self._limit} logs would be followed at once; name one with --pod, or "
                "raise --max-log-requests"
            )
        self._streams[uid] = asyncio.create_task(
            follow_log(
                place,
                pod,
                self._options,
                self._emit,
                say=self._say,
                is_current=lambda: follower.is_at(place) and not follower.is_over,
            )
        )

    def _raise_failures(self) -> None:
        for task in self._streams.values():
            if task.done() and not task.cancelled():
                task.result()

    def _emit(self, line: str, pod: Json) -> None:
        from multiqueue.cli.remote.places import cluster_of

        if self._all_pods:
            cluster = cluster_of(pod)
            line = f"[{cluster + '/' if cluster else ''}{pod['metadata']['name']}] {line}"
        click.echo(line)

    def _say(self, text: str) -> None:
        echo(click.style(f"{self._job}: {text}", dim=True), err=True)
