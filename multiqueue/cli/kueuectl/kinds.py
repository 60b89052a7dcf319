"""The kinds of kueuectl's commands with their aliases, and a group of commands by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from multiqueue.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class KueuectlKind:
    """One kind as commands name it.

    Attributes:
        word: The name of the subcommand.
        kind: The kind of the objects.
        aliases: Other names of the subcommand.
        namespaced: Whether its objects are in namespaces.
    """

    word: str
    kind: str
    aliases: tuple[str, ...]
    namespaced: bool = False

    @property
    def resource(self) -> Resource:
        """The collection of the kind."""
        from multiqueue.kube import resources

        return {
            "Workload": resources.WORKLOADS,
            "LocalQueue": resources.LOCAL_QUEUES,
            "ClusterQueue": resources.CLUSTER_QUEUES,
            "ResourceFlavor": resources.RESOURCE_FLAVORS,
            "Pod": resources.PODS,
        }[self.kind]


WORKLOAD = KueuectlKind(
    "workload", "Workload", ("kwl", "kueueworkload", "kueueworkloads"), namespaced=True
)
LOCAL_QUEUE = KueuectlKind("localqueue", "LocalQueue", ("lq",), namespaced=True)
CLUSTER_QUEUE = KueuectlKind("clusterqueue", "ClusterQueue", ("cq",))
RESOURCE_FLAVOR = KueuectlKind("resourceflavor", "ResourceFlavor", ("rf",))
POD = KueuectlKind("pods", "Pod", ("po",), namespaced=True)
QUEUES = (LOCAL_QUEUE, CLUSTER_QUEUE)
ALL = (WORKLOAD, *QUEUES, RESOURCE_FLAVOR)


class KindGroup(click.Group):
    """Has one subcommand for each kind, which its aliases lead to as well.

    Args:
        name: The name of the group.
        help_: What it does.
        kinds: The kinds in the order shown, each with its command.
    """

    def __init__(
        self, name: str, *, help_: str, kinds: Mapping[KueuectlKind, click.Command]
    ) -> None:
        words = {kind.word: each for kind, each in kinds.items()}
        super().__init__(name, commands=words, help=help_)
        self._aliases = {alias: kind.word for kind in kinds for alias in kind.aliases}
        self._kinds = kinds

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the words of the kinds in the order of the table."""
        del ctx
        return [kind.word for kind in self._kinds]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a kind, by its word or an alias."""
        return super().get_command(ctx, self._aliases.get(cmd_name, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the words with their aliases."""
        del ctx
        rows = [
            (", ".join([kind.word, *kind.aliases]), command.get_short_help_str(80))
            for kind, command in self._kinds.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def make_group(
    name: str,
    help_: str,
    kinds: tuple[KueuectlKind, ...],
    make: Callable[[KueuectlKind], click.Command],
) -> KindGroup:
    """Return a group with a command for each kind."""
    return KindGroup(name, help_=help_, kinds={kind: make(kind) for kind in kinds})
