"""``multiqueue wait``: wait until jobs have quota, run, have ended, or have a condition."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.awaiting import FollowedJob, Until, follow_to_verdict, has_ended
from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.durations import DURATION
from multiqueue.cli.errors import ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data, style_state
from multiqueue.kube.errors import NotFound

if TYPE_CHECKING:
    from multiqueue.api.v1beta2 import Workload
    from multiqueue.kube.client import KubeClient
    from multiqueue.kube.job_objects import JobObject
    from multiqueue.views.workloads import WorkloadRow

RECHECK_SECONDS = 1.0
"""When a job is looked at again whose Workload is deleted and which is not deleted itself."""
REACHED, ENDED, HOPELESS = "reached", "ended", "cannot run"
DELETED, TIMEOUT = "deleted", "timeout"
MESSAGES = {
    HOPELESS: "it cannot run as things stand",
    DELETED: "it was deleted",
    TIMEOUT: "it is not there after the timeout",
}


@dataclass(slots=True, kw_only=True)
class _JobWait(FollowedJob):
    """One job that is waited for; ``silent``: its changes are not printed."""

    jobs: list[JobObject]
    is_there: Until
    silent: bool
    outcome: str = TIMEOUT
    _told: str = ""

    async def run(self, client: KubeClient) -> None:
        """Wait until the outcome is known."""
        while True:
            if not await follow_to_verdict(client, self, self._is_decided):
                self.outcome = HOPELESS
            if self.outcome != DELETED or await self._is_gone(client):
                return
            self.outcome = TIMEOUT
            await asyncio.sleep(RECHECK_SECONDS)

    def _is_decided(self, workload: Workload, view: WorkloadRow) -> bool:
        phase = view.phase
        told = f"{view.job}: {style_state(phase.words, str(phase.state))}"
        told += f" ({phase.why})" if phase.why else ""
        if told != self._told and not self.silent:
            echo(told)
        self._told = told
        if self.is_there(workload, view):
            self.outcome = REACHED
        elif has_ended(view):
            self.outcome = ENDED
        elif workload.metadata.deletion_timestamp:
            self.outcome = DELETED
        return self.outcome != TIMEOUT

    async def _is_gone(self, client: KubeClient) -> bool:
        """Whether the job is deleted, and not only its Workload."""
        for job in self.jobs:
            try:
                obj = await client.get(job.resource, job.name, namespace=job.namespace)
            except NotFound:
                continue
            metadata = obj["metadata"]
            if metadata["uid"] == job.uid and "deletionTimestamp" not in metadata:
                return False
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return the Workload as it was seen last, and the outcome."""
        return {"outcome": self.outcome, **(self.view.to_dict() if self.view else {})}


@click.command("wait")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=names_of("jobs"))
@click.option(
    "--for",
    "goal",
    default="finished",
    show_default=True,
    metavar="quota|running|finished|condition=C",
    help="What to wait for; C is a condition of Workloads, such as Admitted.",
)
@click.option(
    "--timeout", type=DURATION, metavar="DURATION", help="Wait no longer than this (90s, 10m)."
)
@with_target
@output_option
def command(
    *,
    jobs: tuple[str, ...],
    goal: str,
    timeout: timedelta | None,
    target: ClusterTarget,
    output: str,
) -> int:
    """Wait until all the jobs have quota, run, have succeeded, or have a condition.

    Each change is one line. Ends with 0 if all have got there; with 1 after the timeout, or if one
    has failed, was deleted, or cannot run as things stand.

    \b
    Examples:
      multiqueue wait train-7b --for=running --timeout 10m
      multiqueue wait train-7b eval-7b && multiqueue submit -f report.yaml
    """  # noqa: D301 - click reads the backspace
    is_there = read_goal(goal)
    seconds = timeout.total_seconds() if timeout is not None else None
    return run_async(_wait(target, jobs, is_there, seconds, output))


def read_goal(goal: str) -> Until:
    """Return whether a job has got there; one that has succeeded has had quota, and has run.

    Raises:
        UsageProblem: It is no goal.
    """
    from multiqueue.api.conditions import WorkloadCondition
    from multiqueue.api.workload_state import find, has_quota
    from multiqueue.views.phase import PhaseState

    goals: dict[str, Until] = {
        "quota": lambda workload, _: has_quota(workload.status),
        "running": lambda _, view: view.state is PhaseState.RUNNING,
        "finished": lambda _, __: False,
    }
    if is_there := goals.get(goal):
        return lambda workload, view: view.state is PhaseState.SUCCEEDED or is_there(workload, view)
    word, _, name = goal.partition("=")
    known = {each.lower(): each for each in WorkloadCondition}
    type_ = known.get(name.lower())
    if word != "condition" or type_ is None:
        wanted = f"{', '.join(goals)} or condition=C, where C is one of {', '.join(known.values())}"
        raise UsageProblem(f'--for: "{goal}" must be one of {wanted}')

    def is_true(workload: Workload, _: WorkloadRow) -> bool:
        found = find(workload.status, type_)
        return found is not None and found.status == "True"

    return is_true


async def _wait(
    target: ClusterTarget,
    names: tuple[str, ...],
    is_there: Until,
    seconds: float | None,
    output: str,
) -> int:
    from multiqueue.cli.find import find_workload
    from multiqueue.cli.kueuectl.deletion import list_doomed
    from multiqueue.views.workloads import view_workload

    async with connect(target) as (client, namespace):
        waits = []
        for name in names:
            workload = await find_workload(client, namespace, name)
            jobs = list_doomed(workload)
            waits.append(
                _JobWait(
                    namespace=workload.metadata.namespace,
                    uid=jobs[0].uid,
                    view=view_workload(workload),
                    jobs=jobs,
                    is_there=is_there,
                    silent=output != "human",
                )
            )
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(each.run(client) for each in waits))
    if output != "human":
        print_data([each.to_dict() for each in waits], output)
    for each in waits if output == "human" else ():
        if each.outcome in MESSAGES and each.view is not None:
            echo(f"{each.view.job}: {MESSAGES[each.outcome]}", err=True)
    is_done = all(each.outcome == REACHED for each in waits)
    return ExitCode.OK if is_done else ExitCode.FAILED
