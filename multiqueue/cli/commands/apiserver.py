"""``multiqueue apiserver``: one embedded cluster for trying things out."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.local_extra import require_local_extra
from multiqueue.cli.logs import log_options, start_logging
from multiqueue.cli.output import echo

if TYPE_CHECKING:
    from multiqueue.runtime.embedded import EmbeddedOptions

DEFAULT_NODES = ("a100/8",)


@click.command("apiserver")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory that keeps the objects over restarts; without it they live in memory.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port; a free one by default."
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the kubeconfig; a file in the data or a temporary directory by default.",
)
@click.option(
    "--simulate/--no-simulate",
    default=False,
    help="Simulate nodes, a scheduler, kubelets and the Job controller, so that Jobs run.",
)
@click.option(
    "--nodes",
    multiple=True,
    metavar="SPEC",
    help="Simulated nodes: [COUNTx]PRESET[/GPUS][,label=value...] with a preset of a100, h100, l4 "
    'or cpu, such as "2xh100/4"; may be repeated, implies --simulate. One a100/8 by default.',
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Simulated seconds in a second.",
)
@click.option(
    "--crds",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory with more CustomResourceDefinitions to serve beside our own.",
)
@log_options
def command(
    data: Path | None,
    port: int,
    kubeconfig: Path | None,
    *,
    simulate: bool,
    nodes: tuple[str, ...],
    speed: float,
    crds: Path | None,
    log_level: str,
    log_format: str,
) -> int:
    """Run an embedded Kubernetes API server on 127.0.0.1, until Ctrl-C.

    It serves what kubectl and controllers need, and multiqueue's own kinds. The path of its
    kubeconfig is printed once it answers.
    """
    require_local_extra("multiqueue apiserver")
    from multiqueue.runtime.embedded import EmbeddedOptions
    from multiqueue.runtime.process import Stopped, run_process

    simulation = _simulation(nodes or (DEFAULT_NODES if simulate else ()), speed)
    start_logging(log_level, log_format)
    with tempfile.TemporaryDirectory(prefix="multiqueue-") as temporary:
        options = EmbeddedOptions(
            data_dir=data,
            port=port,
            kubeconfig=kubeconfig or (data or Path(temporary)) / "kubeconfig",
            crds=_load_crds(crds) if crds else (),
            simulation=simulation,
        )
        try:
            run_process(lambda: _serve(options))
        except Stopped:
            return ExitCode.OK
        except OSError as error:
            raise CliError(f"cannot serve on port {port}: {error}") from error
    return ExitCode.OK


async def _serve(options: EmbeddedOptions) -> None:
    from multiqueue.runtime.components import run_component
    from multiqueue.runtime.embedded import EmbeddedCluster
    from multiqueue.runtime.preconditions import tune_garbage_collector

    cluster = EmbeddedCluster(options)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_component(cluster), name=cluster.name)
        await cluster.ready.wait()
        tune_garbage_collector()
        echo(f"API server at {cluster.url}")
        echo(f"export KUBECONFIG={options.kubeconfig}")


def _simulation(nodes: Sequence[str], speed: float) -> Any:
    from multiqueue.embedded.cluster.cluster import SimOptions
    from multiqueue.embedded.cluster.nodes import NodeSpecError, parse_node_pool

    if not nodes:
        return None
    try:
        return SimOptions(pools=[parse_node_pool(text) for text in nodes], speed=speed)
    except NodeSpecError as error:
        raise UsageProblem(f"--nodes: {error}") from error


def _load_crds(directory: Path) -> list[dict[str, Any]]:
    from multiqueue.cli.manifests import read_manifests

    manifests = []
    for path in sorted(
        (*directory.glob("*.yaml"), *directory.glob("*.yml"), *directory.glob("*.json"))
    ):
        manifests += [
            manifest
            for manifest in read_manifests(str(path))
            if manifest["kind"] == "CustomResourceDefinition"
        ]
    return manifests
