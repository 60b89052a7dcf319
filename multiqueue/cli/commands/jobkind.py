"""``multiqueue jobkind``: try a JobKind without a cluster, and print the roles that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.manifests import read_manifests
from multiqueue.cli.output import echo, output_option, print_data

if TYPE_CHECKING:
    from multiqueue.api.v1alpha1 import JobKind


@click.group("jobkind")
def command() -> None:
    """Try a JobKind, and print the roles that it needs."""


@command.command("role")
@click.argument("source", metavar="FILE")
@output_option
def role(source: str, output: str) -> None:
    """Print the ClusterRoles to apply for the JobKinds of a file; - is standard input.

    The manager's own role contains those with the label rbac.kueue.x-k8s.io/job-kind. Those with
    the label rbac.kueue.x-k8s.io/remote-job-kind count on workers, for managers that send jobs
    there; apply them there, too.
    """
    from multiqueue.jobs.declared.compiled import row_of
    from multiqueue.jobs.rights import build_declared_roles

    roles = [
        each
        for job_kind in _read_job_kinds(source)
        for each in build_declared_roles(row_of(job_kind.spec))
    ]
    if output == "json":
        print_data({"apiVersion": "v1", "kind": "List", "items": roles}, output)
        return
    for position, each in enumerate(roles):
        if position:
            echo("---")
        print_data(each, "yaml")


@command.command("test")
@click.argument("source", metavar="FILE")
@click.argument("objects", metavar="OBJECT...", nargs=-1, required=True)
@output_option
def test(source: str, objects: tuple[str, ...], output: str) -> int:
    """Show what the JobKind of FILE would do with the objects of other files.

    For each object: its pod sets and what they request, its state, what a start and a stop would
    change, and the copy for a worker. Ends with 1 if the JobKind would not be accepted, or cannot
    read an object. A status in an object is taken as it is.
    """
    from multiqueue.jobs.declared.compiled import JobKindRefusedError, compile_kind
    from multiqueue.jobs.declared.kind import DeclaredKind
    from multiqueue.jobs.declared.preview import preview

    job_kinds = _read_job_kinds(source)
    if len(job_kinds) != 1:
        raise UsageProblem(f'"{source}" has {len(job_kinds)} JobKinds; give a file with one')
    try:
        kind = DeclaredKind(compile_kind(job_kinds[0].spec))
    except JobKindRefusedError as error:
        raise CliError(f"the JobKind is not accepted ({error.reason}): {error}") from error
    shown = [preview(kind, job) for path in objects for job in read_manifests(path)]
    if output == "human":
        print_data(shown, "yaml")
    else:
        print_data(shown, output)
    return ExitCode.FAILED if any(each.get("problems") for each in shown) else ExitCode.OK


def _read_job_kinds(source: str) -> list[JobKind]:
    import msgspec

    from multiqueue.api.v1alpha1 import JobKind

    found = []
    for each in read_manifests(source):
        if each["kind"] != "JobKind":
            raise UsageProblem(f'"{source}" has a {each["kind"]}; a JobKind is expected')
        try:
            found.append(msgspec.convert(each, JobKind))
        except msgspec.ValidationError as error:
            raise UsageProblem(f'"{source}": {error}') from error
    return found
