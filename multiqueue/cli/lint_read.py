"""From the command line of ``multiqueue lint`` to the input of the rules."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from multiqueue.api.config import (
    Configuration,
    ConfigurationError,
    build_configuration,
    load_configuration,
)
from multiqueue.api.names import V1ALPHA1
from multiqueue.api.v1alpha1 import JobKind
from multiqueue.api.validation.access import mapping, text
from multiqueue.cli.connect import ClusterTarget, connect, load_credentials
from multiqueue.cli.errors import CliError, UsageProblem
from multiqueue.cli.lint_files import Manifests, read_sources
from multiqueue.lint.world import LintInput, LintSurroundings, name_of, why_unread

if TYPE_CHECKING:
    from multiqueue.cli.lint_cluster import LintWorkers

_CONFIG_GROUP = "config.kueue.x-k8s.io/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Inputs beside the manifests or the cluster.

    Attributes:
        workers: A kubeconfig, or manifests, by MultiKueueCluster.
        config_file: The manager's configuration.
        system_namespace: The namespace of the manager and its Secrets.
    """

    workers: dict[str, str]
    config_file: Path | None
    system_namespace: str


async def read_file_world(sources: tuple[str, ...], inputs: Inputs) -> tuple[LintInput, list[str]]:
    """Read manifests; return them, and what was skipped."""
    from multiqueue.cli.lint_cluster import LintWorkers
    from multiqueue.jobs.reading import learn_job_kinds

    manifests = read_sources(sources)
    learn_job_kinds(_list_job_kinds(manifests))
    workers = LintWorkers(skipped=manifests.skipped)
    await _read_named(inputs, workers)
    config = _config_file(inputs) or _config_among(manifests)
    proxies = config.multi_kueue.allowed_proxies if config is not None else ()
    _check_secrets(manifests, inputs.system_namespace, workers, proxies)
    workers.skipped.extend(_list_unread(manifests))
    return LintInput(manifests.entries, _around(config, workers)), workers.skipped


async def read_cluster_world(target: ClusterTarget, inputs: Inputs) -> tuple[LintInput, list[str]]:
    """List a cluster and its workers; return them, and what could not be read."""
    from multiqueue.cli import lint_cluster
    from multiqueue.cli.declared_kinds import learn_kinds
    from multiqueue.workers.kubeconfigs.stored import read_config

    async with connect(target) as (client, _):
        await learn_kinds(client)
        reading = await lint_cluster.read_cluster(client)
        await lint_cluster.read_labelled(client, reading)
        try:
            config = _config_file(inputs) or await read_config(client, inputs.system_namespace)
        except ConfigurationError as error:
            raise CliError(f"the manager's ConfigMap: {error}") from error
        named = [
            entry.obj
            for entry in LintInput(reading.entries).entries("MultiKueueCluster")
            if name_of(entry.obj) not in inputs.workers
        ]
        workers = await lint_cluster.read_workers(client, named, namespace=inputs.system_namespace)
    workers.skipped.extend(reading.skipped)
    await _read_named(inputs, workers)
    around = _around(config, workers, frozenset(reading.complete))
    return LintInput(reading.entries, around), workers.skipped


def _around(
    config: Configuration | None, workers: LintWorkers, complete: frozenset[str] = frozenset()
) -> LintSurroundings:
    return LintSurroundings(
        complete=complete,
        config=config,
        workers=workers.worlds,
        worker_problems=workers.unseen,
        kubeconfig_problems=workers.refused,
    )


async def _read_named(inputs: Inputs, workers: LintWorkers) -> None:
    """Read the inputs of ``--worker``: a kubeconfig, or manifests."""
    from multiqueue.cli.lint_cluster import add_worker

    for name, path in inputs.workers.items():
        found = read_sources((path,))
        if any(_is_kubeconfig(entry.obj) for entry in found.entries):
            await add_worker(
                name, await load_credentials(ClusterTarget(kubeconfig=path, context=None)), workers
            )
        else:
            workers.worlds[name] = LintInput(found.entries)


def _list_job_kinds(manifests: Manifests) -> Iterator[JobKind]:
    """Yield the JobKinds among the manifests; a rule reports those that cannot be read."""
    for entry in manifests.entries:
        if (entry.obj.get("apiVersion"), entry.obj.get("kind")) == (V1ALPHA1, "JobKind"):
            with contextlib.suppress(msgspec.ValidationError):
                yield msgspec.convert(entry.obj, JobKind)


def _list_unread(manifests: Manifests) -> list[str]:
    """Return the kinds that no rule reads, each with the number of its objects."""
    unread = Counter(
        why
        for entry in manifests.entries
        if not text(entry.obj.get("apiVersion")).startswith(_CONFIG_GROUP)
        and (why := why_unread(entry.obj))
    )
    return [f"{number} x {why}: no rule reads it" for why, number in sorted(unread.items())]


def _is_kubeconfig(obj: Any) -> bool:
    return bool(obj.get("kind") == "Config" and obj.get("apiVersion") == "v1")


def _config_file(inputs: Inputs) -> Configuration | None:
    path = inputs.config_file
    if path is None:
        return None
    try:
        return load_configuration(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f'cannot read the configuration "{path}": {error}') from error
    except ConfigurationError as error:
        raise UsageProblem(f'"{path}": {error}') from error


def _config_among(manifests: Manifests) -> Configuration | None:
    for entry in manifests.entries:
        if text(entry.obj.get("apiVersion")).startswith(_CONFIG_GROUP):
            try:
                return build_configuration(entry.obj)
            except ConfigurationError as error:
                raise UsageProblem(f"{entry.source}: {error}") from error
    return None


def _check_secrets(
    manifests: Manifests, namespace: str, workers: LintWorkers, proxies: Collection[str]
) -> None:
    """Check the kubeconfigs among the manifests; others may be stored elsewhere."""
    from multiqueue.workers.kubeconfigs.credentials import KubeconfigRefusal, check_secret

    now, world = datetime.now(UTC), LintInput(manifests.entries)
    for cluster in world.all("MultiKueueCluster"):
        location = text(mapping(cluster, "spec", "clusterSource", "kubeConfig").get("location"))
        secret = world.get("Secret", location, namespace)
        if secret is not None:
            found = check_secret(_encoded(secret), location, namespace, now, proxies=proxies)
            if isinstance(found, KubeconfigRefusal):
                workers.refused[name_of(cluster)] = found.message


def _encoded(secret: Any) -> dict[str, Any]:
    """Return the Secret as the API server stores it: stringData is merged into data."""
    import base64

    plain = mapping(secret, "stringData")
    encoded = {k: base64.b64encode(str(v).encode()).decode() for k, v in plain.items()}
    return {**secret, "data": {**mapping(secret, "data"), **encoded}}
