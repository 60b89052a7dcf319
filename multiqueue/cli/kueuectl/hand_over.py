"""Commands that are kubectl's own: it takes over this process with the same arguments."""

from __future__ import annotations

import os
import shutil

import click

from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.kueuectl.kinds import ALL, KindGroup, KueuectlKind, make_group


def make_hand_over_group(verb: str) -> KindGroup:
    """Return a command such as ``describe``, for all kinds."""
    help_ = f"Hand over to kubectl {verb}, with the same arguments."
    return make_group(verb, help_, ALL, lambda kind: make_hand_over(verb, kind))


def make_hand_over(verb: str, kind: KueuectlKind) -> click.Command:
    """Return the command of one kind, which takes all of kubectl's options."""

    def hand_over(arguments: tuple[str, ...]) -> None:
        _become_kubectl(verb, f"{kind.resource.plural}.{kind.resource.group}", arguments)

    return click.command(
        kind.word,
        help=f"Run kubectl {verb} for a {kind.kind}, with all of its options.",
        context_settings={
            "ignore_unknown_options": True,
            "allow_interspersed_args": False,
        },
    )(
        click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")(
            hand_over
        )
    )


def _become_kubectl(verb: str, plural: str, arguments: tuple[str, ...]) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise UsageProblem(
            f'"{verb}" is kubectl\'s, and there is no kubectl on the PATH; install it'
        )
    os.execv(kubectl, [kubectl, verb, plural, *arguments])  # noqa: S606 - no shell is wanted
