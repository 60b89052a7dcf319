"""What a failed request means for the user: which object or login, and what to do."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from multiqueue.cli.errors import CliError, ExitCode
from multiqueue.kube.errors import Forbidden, KubeError, NotFound, TlsError, Unauthorized
from multiqueue.kube.errors import TransportError as Unreachable

if TYPE_CHECKING:
    from multiqueue.cli.connect import ClusterTarget
    from multiqueue.kube.credentials import Credentials

_IN_NAMESPACE = re.compile(r'"[^"/]+/')


def explain_failure(error: KubeError, target: ClusterTarget, credentials: Credentials) -> CliError:
    """Return the error to show for a request that failed.

    Args:
        error: The failure.
        target: The cluster that the user selected.
        credentials: What the request was sent with.
    """
    server = credentials.server
    if isinstance(error, Unauthorized):
        return CliError(_explain_login(target, credentials), ExitCode.UNREACHABLE)
    if isinstance(error, TlsError):
        todo = (
            "is this the right server? Its CA is that of the kubeconfig, or of "
            "--certificate-authority FILE"
        )
        return CliError(
            f"cannot reach the cluster at {server}: {error}; {todo}", ExitCode.UNREACHABLE
        )
    if isinstance(error, Unreachable):
        todo = "is it running, and is this the right kubeconfig?"
        return CliError(
            f"cannot reach the cluster at {server}: {error}; {todo}", ExitCode.UNREACHABLE
        )
    if isinstance(error, Forbidden):
        return CliError(f"not allowed: {error.server_message or error}")
    return CliError(_explain_missing(error, server) if isinstance(error, NotFound) else str(error))


def _explain_login(target: ClusterTarget, credentials: Credentials) -> str:
    given = {"token", "client-certificate"} & set(target.flags.user)
    login = f"--{given.pop()}" if given else "the login of the kubeconfig"
    ends_at = credentials.material.expires_at
    why = "it is wrong or has expired"
    if ends_at is not None and ends_at <= datetime.now(UTC):
        why = f"its token expired at {ends_at:%Y-%m-%dT%H:%M:%SZ}"
    return (
        f"the cluster at {credentials.server} does not accept {login} (401 Unauthorized): {why}; "
        "sign in again, or name another with --context, --kubeconfig or --token"
    )


def _explain_missing(error: NotFound, server: str) -> str:
    details = error.details
    plural, group = details.get("kind"), details.get("group")
    if not (details.get("name") and plural):
        return (
            f"the cluster at {server} does not serve this: {error}; is it the manager's cluster, "
            "and are the CRDs installed?"
        )
    kind = f"{plural}.{group}" if group else plural
    everywhere = " -A" if _IN_NAMESPACE.search(error.request) and plural != "namespaces" else ""
    return f'{error.server_message}; "kubectl get {kind}{everywhere}" lists those that exist'
