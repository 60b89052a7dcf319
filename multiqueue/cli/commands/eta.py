"""``multiqueue eta``: when a waiting job is expected to start, as the manager estimates it."""

from __future__ import annotations

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, connect, run_async, with_target
from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.output import echo, output_option, print_data, print_table


@click.command("eta")
@click.argument(
    "workload", metavar="[WORKLOAD|JOB]", required=False, shell_complete=names_of("jobs")
)
@click.option("-f", "--filename", metavar="FILE|-", help="A job that is not submitted yet.")
@click.option(
    "--gpus", type=click.IntRange(1), metavar="N", help="A job of one pod with so many GPUs."
)
@click.option("--queue", metavar="LOCALQUEUE", help="The LocalQueue of that job.")
@click.option(
    "--calibration",
    is_flag=True,
    help="How the last 200 estimates held, by stage and by how far ahead the start was.",
)
@with_target
@output_option
def command(
    *,
    workload: str | None,
    filename: str | None,
    gpus: int | None,
    queue: str | None,
    calibration: bool,
    target: ClusterTarget,
    output: str,
) -> None:
    """Say when a waiting job is expected to start, and how sure that is.

    Four in five jobs are meant to start in the range in brackets; the last line says how many did.
    The manager computes it; no job is promised a start. Takes the name of a Workload or of its job:
    NAME, KIND/NAME or NAMESPACE/NAME.

    With -f or --gpus it says when a job would start if it were submitted now, and who would be
    stopped for it. Nothing is submitted.

    \b
    Examples:
      multiqueue eta bert -n research
      multiqueue eta -f job.yaml
      multiqueue eta --gpus 8 -n research
      multiqueue eta --calibration
    """  # noqa: D301 - click reads the backspace
    if sum(each is not None for each in (workload, filename, gpus)) + calibration != 1:
        raise UsageProblem("name a job that waits, or give one of -f, --gpus and --calibration")
    if workload is not None and queue is not None:
        raise UsageProblem("--queue is for -f and --gpus: a submitted job has a queue")
    if calibration:
        run_async(_calibration(target, output))
    elif workload is not None:
        run_async(_eta(target, workload, output))
    else:
        run_async(_foresee(target, filename, gpus, queue, output))


async def _calibration(target: ClusterTarget, output: str) -> None:
    from multiqueue.cli.fleet import list_rows
    from multiqueue.cli.views.start import CALIBRATION_HEADERS, list_calibration_rows

    async with connect(target) as (client, _):
        rows = [each["status"] for each in await list_rows(client, "calibrations")]
    if output != "human":
        print_data(rows, output)
        return
    print_table(CALIBRATION_HEADERS, list_calibration_rows(rows))


async def _foresee(
    target: ClusterTarget, filename: str | None, gpus: int | None, queue: str | None, output: str
) -> None:
    from multiqueue.cli.imagined_jobs import find_only_queue, make_job, read_jobs
    from multiqueue.cli.views.foreseen import show_foreseen
    from multiqueue.cli.whatifs import foresee_job

    async with connect(target) as (client, namespace):
        if filename is not None:
            jobs = read_jobs(filename, queue, target.namespace, namespace)
        else:
            assert gpus is not None, "the caller has looked"
            name = queue or await find_only_queue(client, namespace)
            jobs = [make_job(gpus, name, namespace)]
        found = [await foresee_job(client, job, job["metadata"]["namespace"]) for job in jobs]
    if output != "human":
        print_data(found if len(found) > 1 else found[0], output)
        return
    for number, status in enumerate(found):
        if number:
            echo()
        show_foreseen(status)


async def _eta(target: ClusterTarget, name: str, output: str) -> None:
    from multiqueue.cli.find import find_workload
    from multiqueue.cli.views.start import list_start_lines
    from multiqueue.cli.visibility import explain_workload
    from multiqueue.views.phase import find_phase

    async with connect(target) as (client, namespace):
        found = await find_workload(client, namespace, name)
        metadata = found.metadata
        queue = found.spec.queue_name
        answer = await explain_workload(client, metadata.namespace, metadata.name, queue)
    if output != "human":
        print_data({"workload": metadata.key, "start": dict(answer.start) or None}, output)
        return
    if answer.start:
        echo(f"Workload {metadata.key}")
        for line in list_start_lines(answer.start):
            echo(f"  {line}")
        return
    words = find_phase(found).words
    problem = f"; {answer.problem}" if answer.problem else ""
    echo(f"Workload {metadata.key} does not wait for quota: {words}{problem}")
