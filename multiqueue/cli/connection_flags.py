"""kubectl's flags for the connection: each one sets a field of the kubeconfig for one command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from multiqueue.cli.durations import DURATION
from multiqueue.cli.errors import UsageProblem

if TYPE_CHECKING:
    from multiqueue.kube.kubeconfig import KubeconfigContext

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(exists=True, dir_okay=False)
CLUSTER_FLAGS: Mapping[str, Mapping[str, Any]] = {
    "server": {"metavar": "URL", "help": "Address of the API server."},
    "certificate-authority": {"type": _FILE, "help": "File with the CA of the API server."},
    "insecure-skip-tls-verify": {"is_flag": True, "help": "Trust any certificate of the server."},
    "tls-server-name": {"metavar": "NAME", "help": "Name in the certificate of the server."},
}
"""Options that set the field of the same name in the cluster of the kubeconfig."""
USER_FLAGS: Mapping[str, Mapping[str, Any]] = {
    "token": {"metavar": "TOKEN", "help": "Bearer token."},
    "client-certificate": {"type": _FILE, "help": "File with a client certificate."},
    "client-key": {"type": _FILE, "help": "File with the key of the client certificate."},
    "as": {"metavar": "USER", "help": "User to act as."},
    "as-uid": {"metavar": "UID", "help": "UID of the user to act as."},
    "as-group": {"metavar": "GROUP", "multiple": True, "help": "Group to act in; repeat it."},
}
"""The same for the user of the kubeconfig; ``--as-group`` sets ``as-groups``."""
FLAGS = {**CLUSTER_FLAGS, **USER_FLAGS}
_LOGIN = {"token", "client-certificate", "client-key"}
_CA = {"certificate-authority", "certificate-authority-data"}
NO_LIMIT = timedelta(days=1).total_seconds()
"""What ``--request-timeout 0`` means: no request takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFlags:
    """The flags that were given.

    Attributes:
        cluster: Fields of the kubeconfig's cluster, by their names there.
        user: Fields of its user.
        timeout: Seconds that a request may take; None: as the command says.
    """

    cluster: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout: float | None = None

    @property
    def names(self) -> str:
        """The flags that change the kubeconfig, for messages; empty if there are none."""
        fields = [*self.cluster, *self.user]
        return ", ".join(f"--{name.replace('groups', 'group')}" for name in fields)

    def adjust(self, picked: KubeconfigContext) -> KubeconfigContext:
        """Return the context as if the kubeconfig had these fields.

        Parity: `ClientConfig` of client-go: another server has another name in its certificate,
        and who trusts any certificate needs no CA. Deviates: a token or a certificate replaces
        every other login; kubectl sends both, and then the server takes the kubeconfig's user.

        Raises:
            UsageProblem: a flag is unusable, or lacks the one that it belongs to.
        """
        from dataclasses import replace

        dropped = {"tls-server-name"} if "server" in self.cluster else set()
        if not _CA.isdisjoint(self.cluster) or "insecure-skip-tls-verify" in self.cluster:
            dropped |= {*_CA, "insecure-skip-tls-verify"}
        cluster = {k: v for k, v in picked.cluster.items() if k not in dropped}
        user = picked.user
        if not _LOGIN.isdisjoint(self.user):
            user = {k: v for k, v in user.items() if k.startswith("as")}
        return replace(
            picked, cluster={**cluster, **self.cluster}, user=self._check({**user, **self.user})
        )

    def as_kubeconfig(self) -> dict[str, Any]:
        """Return a kubeconfig that has nothing but these fields."""
        return {
            "current-context": "flags",
            "contexts": [{"name": "flags", "context": {"cluster": "flags", "user": "flags"}}],
            "clusters": [{"name": "flags", "cluster": {**self.cluster}}],
            "users": [{"name": "flags", "user": self._check({**self.user})}],
        }

    def _check(self, user: dict[str, Any]) -> dict[str, Any]:
        server = self.cluster.get("server", "https://")
        if not server.startswith(("https://", "http://")):
            raise UsageProblem(f'--server "{server}": write https://HOST:PORT')
        if ("client-key" in self.user) != ("client-certificate" in self.user):
            raise UsageProblem("--client-certificate and --client-key: give both of them")
        if "as" not in user and {"as-uid", "as-groups"} & set(self.user):
            raise UsageProblem("--as-uid, --as-group: name the user with --as too")
        return user


def connection_options(function: F) -> F:
    """Add kubectl's flags, which no help text of a command repeats."""
    for name, given in reversed(FLAGS.items()):
        short = ["-s"] if name == "server" else []
        parameter = name.replace("-", "_") + ("_" if name == "as" else "")
        option = click.option(*short, f"--{name}", parameter, hidden=True, **given)
        function = option(function)
    return click.option(
        "--request-timeout",
        type=DURATION,
        metavar="DURATION",
        hidden=True,
        help="How long a request may take; 0: any time.",
    )(function)


def take_flags(options: dict[str, Any]) -> ConnectionFlags:
    """Remove the flags from the options of a command, and return them."""
    given = {name: _take(options, name) for name in FLAGS}
    groups = given.pop("as-group", None)
    given["as-groups"] = list(groups) if groups else None
    timeout: timedelta | None = options.pop("request_timeout", None)
    set_fields = {name: value for name, value in given.items() if value}
    return ConnectionFlags(
        cluster={k: v for k, v in set_fields.items() if k in CLUSTER_FLAGS},
        user={k: v for k, v in set_fields.items() if k not in CLUSTER_FLAGS},
        timeout=None if timeout is None else timeout.total_seconds() or NO_LIMIT,
    )


def _take(options: dict[str, Any], name: str) -> Any:
    return options.pop(name.replace("-", "_") + ("_" if name == "as" else ""), None)
