"""From upstream's manager to ours, step by step; each step sees for itself whether it is done."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from multiqueue.api.validation.access import mapping
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.cli.migration.backup import check_cluster, read_backup, write_backup
from multiqueue.cli.migration.comparison import MigrationOutcome, compare_workloads
from multiqueue.cli.migration.guard import lift_guard, put_guard
from multiqueue.cli.migration.installation import Installation, is_ours, replicas_of
from multiqueue.cli.migration.manager_control import free_lease, stop_manager, wait_until
from multiqueue.cli.migration.preflight import Preflight, check_installation
from multiqueue.cli.migration.read import read_cluster, read_holder
from multiqueue.kube.client import KubeClient
from multiqueue.kube.manager_names import LEASE
from multiqueue.kube.resources import MUTATING_WEBHOOKS
from multiqueue.webhooks.registration import MUTATING_NAME
from multiqueue.workers.kubeconfigs.stored import CONFIG_KEY, CONFIG_MAP

VALUES, KUSTOMIZATION = "values.yaml", "kustomization.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """What the user asked for.

    Attributes:
        backup: The file of the backup.
        out: The folder for the files that start our manager.
        manifests: Our config/ folder, with the chart in helm/.
        image: Our image with its tag.
        seconds: How long each step may take.
    """

    namespace: str
    backup: Path
    out: Path
    manifests: Path
    image: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """One step and what came of it; ``outcome`` is empty if there was nothing left to do."""

    name: str
    outcome: str


def build_steps(found: Installation, wanted: TakeOver) -> tuple[tuple[str, str], ...]:
    """Return the steps in order, each with its name and what it does."""
    return (
        ("back up", f"write every object of Kueue to {wanted.backup}"),
        ("translate", f"write the configuration and how ours is started to {wanted.out}"),
        ("refuse new jobs", "a policy refuses jobs with a queue that are not suspended"),
        ("stop upstream", "scale Deployment kueue-controller-manager to 0; jobs run on"),
        ("free the Lease", f"release {LEASE}, so that the next leader need not wait"),
        ("start ours", build_command(found, wanted)),
        (
            "compare",
            "the same command again: which jobs run, wait, and in which order; accept jobs",
        ),
    )


def build_command(found: Installation, wanted: TakeOver) -> str:
    """Return the command that brings definitions, rights, webhooks and the manager.

    It is helm's if helm installed upstream, and kubectl's otherwise, because the two have different
    selectors, and the selector of a Deployment can never be changed.
    """
    if found.release:
        return (
            f"helm upgrade {found.release} {wanted.manifests / 'helm'} "
            f"--namespace {wanted.namespace} --reset-values --values {wanted.out / VALUES}"
        )
    return f"kubectl apply --server-side --force-conflicts --kustomize {wanted.out}"


async def prepare(client: KubeClient, wanted: TakeOver) -> tuple[Installation, Preflight]:
    """Read the installation of before: from the backup if the take-over has begun.

    Raises:
        CliError: something blocks the take-over, or the backup is missing or of another cluster.
    """
    found = await read_cluster(client, wanted.namespace)
    if wanted.backup.exists():
        backup = read_backup(wanted.backup)
        check_cluster(backup, found.identity, wanted.namespace)
        found = backup.installation
    elif found.deployment is not None and is_ours(found.deployment):
        raise UsageProblem(
            f'this program runs there already, and the backup "{wanted.backup}" of before does not '
            "exist; name the one that the take-over wrote"
        )
    preflight = check_installation(found)
    if preflight.blocking:
        lines = [f"{each.about}: {each.what}; {each.todo}" for each in preflight.blocking]
        raise CliError(
            "nothing was changed, because of\n" + "\n".join(f"  {line}" for line in lines)
        )
    return found, preflight


async def carry_out(
    client: KubeClient, wanted: TakeOver, found: Installation, preflight: Preflight
) -> list[StepDone]:
    """Do what is left of the steps up to the user's command.

    Raises:
        CliError: a step cannot be done; those before it stay done.
    """
    done = [StepDone(name="back up", outcome=_back_up(wanted, found))]
    write_start(wanted, found, preflight.wire)
    done.append(StepDone(name="translate", outcome=f"wrote {wanted.out}"))
    current = await read_cluster(client, wanted.namespace)
    if current.deployment is not None and is_ours(current.deployment):
        return [*done, *(StepDone(name=n, outcome="") for n, _ in build_steps(found, wanted)[2:6])]
    await put_guard(client)
    done.append(StepDone(name="refuse new jobs", outcome="until the last step"))
    stopped = await stop_manager(client, wanted.namespace, seconds=wanted.seconds)
    done.append(StepDone(name="stop upstream", outcome=stopped))
    freed = await free_lease(client, wanted.namespace)
    return [*done, StepDone(name="free the Lease", outcome=freed)]


async def compare(
    client: KubeClient, namespace: str, before: Installation, *, ours: bool, seconds: float
) -> MigrationOutcome | None:
    """Wait until the new manager leads and compare, then have new jobs accepted again.

    Returns None if that manager was not started yet.

    Raises:
        CliError: it does not lead in time.
    """
    now = await read_cluster(client, namespace)
    if now.deployment is None or is_ours(now.deployment) != ours:
        return None

    is_elected = bool(before.holder)

    async def works() -> bool:
        hooks = (await client.get(MUTATING_WEBHOOKS, MUTATING_NAME)).get("webhooks")
        leads = not is_elected or await read_holder(client, namespace)
        return bool(hooks and leads)

    if not await wait_until(works, seconds):
        raise CliError(
            f"after {seconds:g} s nobody holds the Lease {namespace}/{LEASE}, or no webhooks are "
            "registered. Jobs run on, none is admitted, and new ones are refused; look at the log "
            "of the manager, then run this command again, or roll back"
        )
    outcome = compare_workloads(before, await read_cluster(client, namespace))
    await lift_guard(client)
    return outcome


def write_start(wanted: TakeOver, found: Installation, wire: Mapping[str, Any]) -> None:
    """Write the files that the command of the take-over reads."""
    configuration = _to_yaml(wire)
    repository, _, tag = wanted.image.rpartition(":")
    files: dict[str, str]
    if found.release:
        certificates = mapping(wire, "internalCertManagement")
        image = {"repository": repository, "tag": tag}
        manager = {"manager": {"image": image}, "replicas": replicas_of(found.deployment or {})}
        values = {
            "enableCertManager": certificates.get("enable") is False,
            "controllerManager": manager,
            "managerConfig": {"controllerManagerConfigYaml": configuration},
        }
        files = {VALUES: _to_yaml(values)}
    else:
        base = os.path.relpath(wanted.manifests.resolve() / "default", wanted.out.resolve())
        merged = {"name": CONFIG_MAP, "namespace": wanted.namespace, "behavior": "replace"}
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [base],
            "configMapGenerator": [{**merged, "files": [CONFIG_KEY]}],
            "images": [{"name": "multiqueue", "newName": repository, "newTag": tag}],
        }
        files = {CONFIG_KEY: configuration, KUSTOMIZATION: _to_yaml(kustomization)}
    try:
        wanted.out.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (wanted.out / name).write_text(content)
    except OSError as error:
        raise UsageProblem(f'cannot write to "{wanted.out}": {error.strerror}') from error


def _to_yaml(value: Mapping[str, Any]) -> str:
    import yaml

    class Readable(yaml.SafeDumper):
        """Writes texts of several lines as such."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Readable.add_representer(str, represent)
    return yaml.dump(dict(value), Dumper=Readable, sort_keys=False)


def _back_up(wanted: TakeOver, found: Installation) -> str:
    if wanted.backup.exists():
        return ""
    checksum = write_backup(wanted.backup, found, namespace=wanted.namespace, now=datetime.now(UTC))
    return f"{len(found.objects)} objects in {wanted.backup}, sha256 {checksum[:12]}…"
