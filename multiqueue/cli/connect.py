"""From ``--kubeconfig`` and ``--context`` to a client, with errors that users understand."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from multiqueue.cli.connection_flags import ConnectionFlags, connection_options, take_flags
from multiqueue.cli.errors import CliError, ExitCode, UsageProblem

if TYPE_CHECKING:
    from multiqueue.kube.client import KubeClient
    from multiqueue.kube.credentials import Credentials
    from multiqueue.kube.limiter import RateLimiter

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

IN_CLUSTER_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTarget:
    """The cluster that the user selected."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None = None
    flags: ConnectionFlags = field(default_factory=ConnectionFlags)


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--kubeconfig``, ``--context`` and kubectl's other flags for the connection.

    The command gets ``target`` for them, and for ``--namespace``.
    """
    return _give_target(connection_options(function), take_flags)


def kubeconfig_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--kubeconfig`` and ``--context`` alone; the command gets ``target`` for them."""
    return _give_target(function, lambda _: ConnectionFlags())


def _give_target(
    function: Callable[..., Any], find_flags: Callable[[dict[str, Any]], ConnectionFlags]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def command(*arguments: Any, **options: Any) -> Any:
        target = ClusterTarget(
            kubeconfig=options.pop("kubeconfig"),
            context=options.pop("context"),
            namespace=options.pop("namespace", None),
            flags=find_flags(options),
        )
        return function(*arguments, target=target, **options)

    return _kubeconfig_options(command)


def _kubeconfig_options(function: F) -> F:
    function = click.option(
        "--context", metavar="NAME", help="Context of the kubeconfig; its current one by default."
    )(function)
    return click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig; by default $KUBECONFIG, then ~/.kube/config, then the pod's own account.",
    )(function)


def namespace_option(function: F) -> F:
    """Add ``-n``."""
    return click.option(
        "-n", "--namespace", metavar="NAME", help="Namespace; that of the context by default."
    )(function)


def with_target(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``-n`` and the options for the connection; the command gets ``target`` for them."""
    return namespace_option(cluster_options(function))


def system_namespace_option(function: F) -> F:
    """Add ``--system-namespace``."""
    return click.option(
        "--system-namespace",
        default="kueue-system",
        show_default=True,
        metavar="NAME",
        help="Namespace of the manager, where the kubeconfigs of the workers are.",
    )(function)


def find_kubeconfig(target: ClusterTarget) -> str | None:
    """Return the kubeconfig to use; None if there is none or the pod's account is to be used."""
    given = target.kubeconfig or os.environ.get("KUBECONFIG")
    if given or is_in_cluster():
        return given
    default = Path("~/.kube/config").expanduser()
    return str(default) if default.exists() else None


def is_in_cluster() -> bool:
    """Whether this runs in a pod that has a service account."""
    return IN_CLUSTER_TOKEN.exists()


async def load_credentials(target: ClusterTarget) -> Credentials:
    """Return the credentials of the selected cluster.

    Raises:
        CliError: there are none, or they cannot be used.
    """
    from multiqueue.kube.credentials import Credentials
    from multiqueue.kube.errors import CredentialsError

    paths, flags = find_kubeconfig(target), target.flags
    if paths is not None:
        _check_readable(paths, target.context)
    try:
        if paths is not None:
            return await Credentials.from_kubeconfig_file(
                paths, target.context, allow_exec=True, adjust=flags.adjust
            )
        if "server" in flags.cluster:
            return await Credentials.from_kubeconfig_dict(flags.as_kubeconfig(), allow_files=True)
        if flags.names:
            raise UsageProblem(f"{flags.names}: pass --kubeconfig FILE or --server URL too")
        if is_in_cluster():
            return await Credentials.in_cluster()
    except CredentialsError as error:
        raise CliError(str(error), ExitCode.UNREACHABLE) from error
    raise CliError(
        "no cluster to talk to: pass --kubeconfig FILE or set KUBECONFIG "
        '("multiqueue apiserver --simulate" starts an embedded cluster and prints its kubeconfig)',
        ExitCode.UNREACHABLE,
    )


def _check_readable(paths: str, context: str | None) -> None:
    """Raise if a file or context name is wrong, so that it is not taken for a refused login."""
    from multiqueue.kube import kubeconfig
    from multiqueue.kube.errors import CredentialsError

    try:
        kubeconfig.pick_context(kubeconfig.load_files(paths), context)
    except CredentialsError as error:
        words = str(error)
        if paths not in words:
            words = words.replace("kubeconfig", f'kubeconfig "{paths}"', 1)
        raise UsageProblem(words) from error


@asynccontextmanager
async def connect(
    target: ClusterTarget, *, limiter: RateLimiter | None = None
) -> AsyncIterator[tuple[KubeClient, str]]:
    """Yield a client and the selected namespace; explain failures of the connection."""
    from multiqueue.kube.client import KubeClient
    from multiqueue.kube.errors import KubeError

    credentials = await load_credentials(target)
    client = KubeClient(
        credentials,
        limiter=limiter,
        user_agent="multiqueue-cli",
        default_timeout=target.flags.timeout or TIMEOUT_SECONDS,
        field_manager="multiqueue-cli",
        on_warning=lambda text: click.echo(click.style("warning: ", fg="yellow") + text, err=True),
    )
    try:
        async with client:
            yield client, target.namespace or credentials.namespace or "default"
    except KubeError as error:
        from multiqueue.cli.failures import explain_failure

        raise explain_failure(error, target, credentials) from error


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine; an error inside a task group is raised as itself."""
    try:
        return asyncio.run(main)
    except BaseExceptionGroup as group:
        cli_errors, _ = group.split(CliError)
        if cli_errors is not None:
            raise _first(cli_errors) from None
        raise


def _first(group: BaseExceptionGroup[CliError]) -> CliError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, CliError)
    return error
