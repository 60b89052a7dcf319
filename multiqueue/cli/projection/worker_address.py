"""How a manager reaches a worker: the cluster entry of a kubeconfig, with all data inline."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from multiqueue.cli.connect import ClusterTarget, find_kubeconfig
from multiqueue.cli.errors import UsageProblem
from multiqueue.kube import kubeconfig
from multiqueue.kube.errors import CredentialsError

_CA, _CA_DATA = "certificate-authority", "certificate-authority-data"


def read_address(
    target: ClusterTarget, *, server: str | None, authority: str | None
) -> dict[str, Any]:
    """Return the cluster entry in the form that a manager accepts.

    Args:
        target: The administrator's kubeconfig and context.
        server: Another address for the worker.
        authority: A file with another CA.

    Raises:
        UsageProblem: there is no entry that a manager would accept.
    """
    paths = find_kubeconfig(target)
    if paths is None:
        raise UsageProblem("no kubeconfig of the worker: pass --worker-kubeconfig FILE")
    try:
        picked = kubeconfig.pick_context(kubeconfig.load_files(paths), target.context)
    except CredentialsError as error:
        raise UsageProblem(f"the worker's {error}") from error
    cluster = dict(picked.cluster)
    if server:
        cluster["server"] = server
        cluster.pop("proxy-url", None)  # the proxy is for the other address
    file = authority or cluster.pop(_CA, None)
    if file:
        cluster[_CA_DATA] = _read(file)
    _check(cluster)
    return cluster


def _read(file: str) -> str:
    try:
        return base64.b64encode(Path(file).read_bytes()).decode()
    except OSError as error:
        raise UsageProblem(f'cannot read the CA "{file}": {error.strerror or error}') from error


def _check(cluster: dict[str, Any]) -> None:
    if not str(cluster["server"]).startswith("https://"):
        raise UsageProblem(
            f'the worker\'s server "{cluster["server"]}" is not https; a manager sends no token '
            "in the clear: pass --server https://..."
        )
    if cluster.get("insecure-skip-tls-verify") and not cluster.get(_CA_DATA):
        raise UsageProblem(
            "the worker's kubeconfig does not verify TLS, and a manager insists on it; pass its CA "
            "with --certificate-authority FILE"
        )
