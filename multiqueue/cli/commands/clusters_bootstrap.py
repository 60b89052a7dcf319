"""``multiqueue clusters bootstrap``: make a cluster a worker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.connect import (
    ClusterTarget,
    connect,
    kubeconfig_options,
    run_async,
    system_namespace_option,
)
from multiqueue.cli.durations import DURATION, DurationType
from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.output import echo, output_option, print_data

if TYPE_CHECKING:
    from multiqueue.api.config import Configuration
    from multiqueue.cli.projection.bootstrap import BootstrapResult, Registration
    from multiqueue.cli.projection.prerequisites import Prerequisites
    from multiqueue.kube.client import KubeClient


@click.command("bootstrap")
@click.argument("name", metavar="NAME")
@click.option("--worker-context", metavar="CONTEXT", help="Context of the worker's administrator.")
@click.option(
    "--worker-kubeconfig",
    metavar="FILE",
    help="Kubeconfig of the worker's administrator; the manager's by default.",
)
@click.option(
    "--server",
    metavar="URL",
    help="Where the manager reaches the worker, if not at the address in that kubeconfig.",
)
@click.option(
    "--certificate-authority",
    "authority",
    metavar="FILE",
    help="CA of that server, if not the one in that kubeconfig.",
)
@click.option(
    "--token-duration",
    type=DurationType(shortest=timedelta(minutes=10)),
    default="8760h",
    show_default=True,
    metavar="DURATION",
    help="How long the token lives, 10m at least; the worker may give less.",
)
@click.option("--long-lived", is_flag=True, help="A token without end, until its Secret goes.")
@click.option("--rotate", is_flag=True, help="A new token for a worker that is registered.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; write nothing.")
@click.option("--force", is_flag=True, help="Take over fields that others set.")
@click.option(
    "--timeout",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="How long to wait until the manager uses the worker; 0: do not wait.",
)
@system_namespace_option
@kubeconfig_options
@output_option
def command(  # noqa: PLR0913 - one argument an option
    *,
    name: str,
    worker_context: str | None,
    worker_kubeconfig: str | None,
    server: str | None,
    authority: str | None,
    token_duration: timedelta,
    long_lived: bool,
    rotate: bool,
    dry_run: bool,
    force: bool,
    timeout: timedelta,
    system_namespace: str,
    target: ClusterTarget,
    output: str,
) -> int:
    """Make a cluster worker NAME: an account there with just the rights it takes, known here.

    --kubeconfig and --context lead to the manager's cluster, --worker-kubeconfig and
    --worker-context to the worker, as its administrator. May be done again at any time: what is
    there stays, a token that works is kept. Never shows a token.
    """
    from multiqueue.api.validation.names import check_subdomain
    from multiqueue.cli.projection.worker_address import read_address

    for problem in check_subdomain(name):
        raise UsageProblem(f'NAME "{name}": {problem}')
    if worker_context is None and worker_kubeconfig is None:
        raise UsageProblem(
            "which cluster shall be the worker? Name its administrator's credentials with "
            "--worker-context or --worker-kubeconfig"
        )
    worker = ClusterTarget(
        kubeconfig=worker_kubeconfig or target.kubeconfig, context=worker_context
    )
    options: dict[str, Any] = {
        "name": name,
        "namespace": system_namespace,
        "cluster": read_address(worker, server=server, authority=authority),
        "lifetime": None if long_lived else token_duration,
        "force": force,
    }
    seconds = timeout.total_seconds()
    return run_async(
        _run(target, worker, options, rotate=rotate, dry_run=dry_run, seconds=seconds, out=output)
    )


async def _run(
    target: ClusterTarget,
    worker_target: ClusterTarget,
    options: dict[str, Any],
    *,
    rotate: bool,
    dry_run: bool,
    seconds: float,
    out: str,
) -> int:
    from multiqueue.cli.projection import bootstrap
    from multiqueue.cli.projection.access import identify
    from multiqueue.cli.projection.kind_rights import list_sent_kinds
    from multiqueue.cli.projection.prerequisites import check_worker

    name, namespace = options["name"], options["namespace"]
    async with connect(target) as (manager, _), connect(worker_target) as (worker, _):
        found = await check_worker(name, worker, manager, namespace)
        if found.missing:
            raise CliError(f'"{name}" cannot be a worker: ' + "; ".join(found.missing))
        known = await bootstrap.find_secret(manager, name)
        if rotate and known is None:
            raise CliError(f'there is no MultiKueueCluster "{name}" to rotate the token of')
        kinds = await list_sent_kinds(manager, await _read_config(manager, namespace, found))
        wanted = bootstrap.Registration(
            **options,
            kinds=kinds,
            secret=known or f"{name}-kubeconfig",
            is_known=known is not None,
            origin=await identify(manager),
        )
        if dry_run:
            _print_plan(wanted, found, out)
            return ExitCode.OK
        done = bootstrap.BootstrapResult()
        await _carry_out(worker, manager, wanted, found, done, rotate=rotate)
        if seconds:
            await bootstrap.wait_until_active(manager, name, done, seconds=seconds)
        configs = await bootstrap.listed_in(manager, name)
    _print(wanted, found, done, configs, out, waited=seconds)
    return ExitCode.OK if done.active or not seconds else ExitCode.FAILED


async def _read_config(manager: KubeClient, namespace: str, found: Prerequisites) -> Configuration:
    """Return the manager's Configuration; the default one, and a doubt, if it cannot be read."""
    from multiqueue.api.config import Configuration
    from multiqueue.workers.kubeconfigs.stored import CONFIG_MAP, read_config

    try:
        config = await read_config(manager, namespace)
    except ValueError as error:
        raise CliError(f"the manager's ConfigMap: {error}") from error
    if config is None:
        found.doubts.append(
            f'cannot read ConfigMap "{namespace}/{CONFIG_MAP}", so the manager gets no rights on '
            "built-in kinds beside Job there; for these, apply config/worker-role on the worker"
        )
    return config or Configuration()


async def _carry_out(
    worker: KubeClient,
    manager: KubeClient,
    wanted: Registration,
    found: Prerequisites,
    done: BootstrapResult,
    *,
    rotate: bool,
) -> None:
    from multiqueue.cli.projection import bootstrap

    await bootstrap.prepare(worker, wanted, done)
    so_far = await bootstrap.look_at_stored(manager, wanted.name, wanted.namespace, found.identity)
    if so_far.works and not rotate:
        done.expiries = so_far.expiries
        done.lines.append(f"manager: the token in secret/{wanted.secret} works and is kept")
        return
    await bootstrap.register(worker, manager, wanted, done, identity=found.identity, former=so_far)


def _print_plan(wanted: Registration, found: Prerequisites, out: str) -> None:
    """Print the manifests that would be applied, with masked tokens."""
    import yaml

    from multiqueue.cli.projection.bootstrap import manifests
    from multiqueue.projection.registration import masked

    there, here = manifests(wanted)
    here = [masked(manifest) for manifest in here]
    if out != "human":
        data = {"worker": there, "manager": here, "facts": found.facts, "doubts": found.doubts}
        print_data(data, out)
        return
    _print_findings(wanted.name, found)
    echo(f"# on {wanted.name}, and a Secret that the token ends with (dry run)")
    echo(yaml.safe_dump_all(there, sort_keys=False).rstrip())
    echo("---\n# on the manager (dry run)")
    echo(yaml.safe_dump_all(here, sort_keys=False).rstrip())


def _print_findings(name: str, found: Prerequisites) -> None:
    echo(f"{name}: {', '.join(found.facts)}", err=True)
    for doubt in found.doubts:
        echo(f"{click.style('warning', fg='yellow')}: {name}: {doubt}", err=True)


def _tell_ends(name: str, done: BootstrapResult) -> Iterator[str]:
    from multiqueue.workers.kubeconfigs.expiry import CLIENT, TOKEN

    for each in done.expiries:
        again = f'"multiqueue clusters bootstrap {name} --rotate"'
        todo = f"renew it before with {again}"
        if each.what != TOKEN:
            todo = f"give the manager the next one before with {again}"
        yield f"{name}: the {each.what} ends {each.ends_at:%Y-%m-%dT%H:%M:%SZ}; {todo}"
    if not any(each.what in {TOKEN, CLIENT} for each in done.expiries):
        yield f"{name}: the token has no end of its own; delete its Secret there to withdraw it"


def _print(
    wanted: Registration,
    found: Prerequisites,
    done: BootstrapResult,
    configs: list[str],
    out: str,
    *,
    waited: float,
) -> None:
    if out != "human":
        ends = {each.what: each.ends_at.isoformat() for each in done.expiries}
        from multiqueue.workers.kubeconfigs.expiry import AUTHORITY, TOKEN

        data = {
            "worker": wanted.name,
            "active": done.active,
            "message": done.message or None,
            "secret": f"{wanted.namespace}/{wanted.secret}",
            "tokenExpiresAt": ends.get(TOKEN),
            "caExpiresAt": ends.get(AUTHORITY),
            "configs": configs,
            "steps": done.lines,
            "facts": found.facts,
            "doubts": found.doubts,
        }
        print_data(data, out)
        return
    _print_findings(wanted.name, found)
    for line in done.lines:
        echo(line)
    for line in _tell_ends(wanted.name, done):
        echo(line)
    if waited:
        state = "Active" if done.active else "not Active"
        why = "" if done.active else f": {done.message or 'the manager does not say why'}"
        echo(f"{wanted.name}: {click.style(state, fg='green' if done.active else 'red')}{why}")
    if not configs:
        echo(
            f"{wanted.name}: no MultiKueueConfig lists it yet; add it to the spec.clusters of one, "
            f'then bring queues there with "multiqueue clusters sync {wanted.name}"'
        )
