"""The commands ``stop`` and ``resume``: the same fields, set to other values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from multiqueue.cli.completion import names_of
from multiqueue.cli.connect import ClusterTarget, run_async, with_target
from multiqueue.cli.kueuectl.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    WORKLOAD,
    KindGroup,
    KueuectlKind,
    make_group,
)
from multiqueue.cli.kueuectl.options import DryRun, dry_run_option, object_option

KINDS = (WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE)


def make_stop() -> KindGroup:
    """Return the command ``stop``."""
    help_ = "Stop a Workload, or hold a queue; what runs stops too, unless it is kept."
    return make_group("stop", help_, KINDS, _make_stop)


def make_resume() -> KindGroup:
    """Return the command ``resume``."""
    return make_group("resume", "Resume what was stopped or held.", KINDS, _make_resume)


def _make_stop(kind: KueuectlKind) -> click.Command:
    def stop(*, keep_already_running: bool = False, **options: Any) -> None:
        if kind is WORKLOAD:
            _change(kind, {"active": False}, done="stopped", **options)
        else:
            policy = "Hold" if keep_already_running else "HoldAndDrain"
            _change(kind, {"stopPolicy": policy}, **options)

    if kind is WORKLOAD:
        help_ = "Stop a Workload: it gives its quota back, and waits until it is resumed."
        return _make_command(kind, stop, help_)
    keep = click.option(
        "--keep-already-running", is_flag=True, help="Let what runs go on to its end."
    )
    help_ = f"Hold a {kind.kind}: nothing starts, and what runs in it stops."
    return _make_command(kind, keep(stop), help_)


def _make_resume(kind: KueuectlKind) -> click.Command:
    def resume(**options: Any) -> None:
        if kind is WORKLOAD:
            _change(kind, {"active": True}, done="resumed", **options)
        else:
            _change(kind, {"stopPolicy": "None"}, **options)

    return _make_command(kind, resume, f"Resume a {kind.kind}.")


def _make_command(kind: KueuectlKind, function: Callable[..., None], help_: str) -> click.Command:
    with_options = click.argument("name", shell_complete=names_of(kind.resource.plural))(
        dry_run_option(object_option(with_target(function)))
    )
    return click.command(kind.word, help=help_)(with_options)


def _change(
    kind: KueuectlKind,
    spec: dict[str, Any],
    *,
    target: ClusterTarget,
    name: str,
    dry_run: DryRun,
    output: str,
    done: str = "",
) -> None:
    from multiqueue.cli.kueuectl.changes import change_object

    run_async(change_object(target, kind, name, spec, done=done, output=output, dry_run=dry_run))
