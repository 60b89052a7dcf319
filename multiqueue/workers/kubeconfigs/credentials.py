"""Kubeconfigs of workers: where they are kept, and whether they are safe to use.

A kubeconfig is written by anybody who may write Secrets in the manager's namespace, and is used
with the manager's rights. So it must not make the manager read a file, run a program or trust a
server unverified; every entry is checked, not only the current context. `check_kubeconfig` is pure;
messages name entries, never values.

Parity: M-30 to M-36. Deviates: files of client certificates and keys are refused too, as are
servers without TLS and proxies that are not allowed. An expired token or certificate is reported
before the worker refuses it.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from multiqueue.api.conditions import ClusterReason
from multiqueue.kube import kubeconfig
from multiqueue.kube.errors import CredentialsError
from multiqueue.kube.exec_credentials import ExecPlugin
from multiqueue.lib.bounded_yaml import YamlLimits
from multiqueue.workers.kubeconfigs.addresses import find_address_problems, identify_server
from multiqueue.workers.kubeconfigs.expiry import Expiry, find_expiries
from multiqueue.workers.kubeconfigs.inline_data import find_bad_data

SECRET_KEY = "kubeconfig"  # noqa: S105 - the name of a key, not a secret
PATH_PREFIX = Path("/etc/multikueue/kubeconfigs")
"""The only folder in which a kubeconfig file may be (M-34)."""
MAX_KUBECONFIG_BYTES = 1 << 20
"""The size limit of a Secret; a larger file is no kubeconfig."""
LIMITS = YamlLimits(size=MAX_KUBECONFIG_BYTES, nodes=10_000, levels=50)
"""Limits of a worker's kubeconfig: enough for hundreds of contexts, read in 50 ms."""

_TOKEN = re.compile(r"[!-~]+")
_USED = {
    "context": ("cluster", "user", "namespace"),
    "cluster": ("server", "certificate-authority-data", "tls-server-name", "proxy-url"),
    "user": ("token", "client-certificate-data", "client-key-data"),
}
_FORBIDDEN_USER_KEYS = {
    "tokenFile": "a token file",
    "client-certificate": "a client certificate file",
    "client-key": "a client key file",
    "exec": "a program (exec)",
    "auth-provider": "an auth-provider",
    "username": "a password",
    "password": "a password",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatus:
    """The Active condition of a MultiKueueCluster, without its times."""

    active: bool
    reason: ClusterReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigRefusal:
    """Why a cluster cannot be connected to; shown in its Active condition (M-222)."""

    reason: ClusterReason
    message: str

    @property
    def status(self) -> ConnectionStatus:
        """The condition that reports this refusal."""
        return ConnectionStatus(active=False, reason=self.reason, message=self.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeKubeconfig:
    """A kubeconfig that was checked.

    Attributes:
        config: The parts of it that are used.
        expiries: When its credentials end, the first to end first.
        server: The API server of its current context; equal texts mean the same server.
        plugin: A program that returns the credentials, from our own configuration; then ``config``
            has only the address.
    """

    config: Mapping[str, Any]
    expiries: tuple[Expiry, ...] = ()
    server: str = ""
    plugin: ExecPlugin | None = None

    @property
    def expires_at(self) -> datetime | None:
        """When it first expires; None if it does not say."""
        return self.expiries[0].ends_at if self.expiries else None


def read_secret(
    secret: Mapping[str, Any] | None, name: str, namespace: str
) -> bytes | KubeconfigRefusal:
    """Take the kubeconfig out of a Secret."""
    where = f'Secret "{namespace}/{name}"'
    if secret is None:
        return _bad(f"{where} not found; create it with the kubeconfig under the key {SECRET_KEY}")
    values = secret.get("data")
    encoded = values.get(SECRET_KEY) if isinstance(values, Mapping) else None
    if encoded is None:
        return _bad(f'{where} has no key "{SECRET_KEY}"; put the kubeconfig under this key')
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return _bad(f'{where}: key "{SECRET_KEY}" is not base64')
    if not data.strip():
        return _bad(f'{where}: key "{SECRET_KEY}" is empty')
    return data


def check_path(location: str, prefix: Path = PATH_PREFIX) -> Path | KubeconfigRefusal:
    """Resolve the path of a kubeconfig file, with links; it must be below the prefix (M-34).

    Reads the file system.
    """
    path = Path(location)
    if not location or not path.is_absolute():
        return _bad(f'kubeconfig path "{location}" is not absolute')
    if ".." in path.parts:
        return _bad(f'kubeconfig path "{location}" contains ".."')
    try:
        real_prefix, real_path = prefix.resolve(strict=True), path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # ValueError: not a valid file name
        return _bad(f'kubeconfig file "{location}" not found')
    if real_prefix not in real_path.parents:
        return _bad(f'kubeconfig path "{location}" is not below {prefix}')
    return real_path


def read_file(location: str, prefix: Path = PATH_PREFIX) -> bytes | KubeconfigRefusal:
    """Read a kubeconfig file from below the prefix. Reads the file system."""
    path = check_path(location, prefix)
    if isinstance(path, KubeconfigRefusal):
        return path
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_KUBECONFIG_BYTES:
                return _bad(f'kubeconfig file "{location}" is too large')
            data = file.read(MAX_KUBECONFIG_BYTES)
    except OSError as error:
        return _bad(f'kubeconfig file "{location}": {error.strerror}')
    return data if data.strip() else _bad(f'kubeconfig file "{location}" is empty')


def check_secret(
    secret: Mapping[str, Any] | None,
    name: str,
    namespace: str,
    now: datetime,
    *,
    proxies: Collection[str],
) -> SafeKubeconfig | KubeconfigRefusal:
    """Take the kubeconfig out of a Secret and check it."""
    data = read_secret(secret, name, namespace)
    return (
        data
        if isinstance(data, KubeconfigRefusal)
        else check_kubeconfig(data, now, proxies=proxies)
    )


def check_kubeconfig(
    data: bytes, now: datetime, *, proxies: Collection[str] = ()
) -> SafeKubeconfig | KubeconfigRefusal:
    """Parse a kubeconfig and refuse what is unsafe, broken or expired.

    Any input gets an answer, quickly.

    Args:
        data: The text.
        now: The time, to judge expiry.
        proxies: The proxies that the manager's configuration allows.
    """
    try:
        config = kubeconfig.parse(data, limits=LIMITS)
    except CredentialsError as error:
        return _insecure(str(error))
    for problem in _find_problems(config, proxies):
        return _insecure(problem)
    try:
        picked = kubeconfig.pick_context(config)
    except CredentialsError as error:
        return _bad(str(error))
    for problem in _find_bad_data(picked):
        return _bad(problem)
    expiries = find_expiries(picked.cluster, picked.user)
    for expiry in expiries:
        if expiry.ends_at <= now:
            return _bad(
                f'kubeconfig: the {expiry.what} of context "{kubeconfig.shown(picked.name)}" '
                f"expired at {expiry.ends_at:%Y-%m-%dT%H:%M:%SZ}; renew it"
            )
    server = identify_server(picked.cluster)
    return SafeKubeconfig(config=_reduce(picked), expiries=expiries, server=server)


def _reduce(picked: kubeconfig.KubeconfigContext) -> dict[str, Any]:
    """Return a kubeconfig of one context, with only the strings that are used."""

    def section(name: str, key: str, entry: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{"name": name, key: {k: entry[k] for k in _USED[key] if entry.get(k)}}]

    return {
        "current-context": picked.name,
        "contexts": section(picked.name, "context", picked.context),
        "clusters": section(picked.cluster_name, "cluster", picked.cluster),
        "users": section(picked.user_name, "user", picked.user),
    }


def _find_problems(config: Mapping[str, Any], proxies: Collection[str]) -> Iterator[str]:
    """Yield what is unsafe, entry by entry (M-31, M-32)."""
    for what, user in _entries(config, "users"):
        for key, words in _FORBIDDEN_USER_KEYS.items():
            if user.get(key):
                yield f"{what} uses {words}; put a token or a client certificate inline"
    for what, cluster in _entries(config, "clusters"):
        if cluster.get("insecure-skip-tls-verify"):
            yield f"{what} does not verify TLS; give it the server's CA"
        if cluster.get("certificate-authority"):
            yield f"{what} uses a CA file; put the CA inline"
        yield from find_address_problems(what, cluster, proxies)


def _entries(config: Mapping[str, Any], section: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of a section, each with a name for messages."""
    word, entries = kubeconfig.SECTIONS[section], config.get(section)
    for entry in entries if isinstance(entries, list) else ():
        value = entry.get(word) if isinstance(entry, Mapping) else None
        if isinstance(value, Mapping):
            yield f'kubeconfig: {word} "{kubeconfig.shown(entry.get("name"))}"', value


def _find_bad_data(picked: kubeconfig.KubeconfigContext) -> Iterator[str]:
    """Yield the problems with the inline data of the current context."""
    for word, name, value in (
        ("cluster", picked.cluster_name, picked.cluster),
        ("user", picked.user_name, picked.user),
    ):
        problem = find_bad_data(value)
        if problem:
            yield f'kubeconfig: {word} "{kubeconfig.shown(name)}": {problem}'
    token = picked.user.get("token")
    if token and not _TOKEN.fullmatch(token):
        yield (
            f'kubeconfig: user "{kubeconfig.shown(picked.user_name)}": token holds a space, a line '
            "break or another character that no token has"
        )


def _bad(message: str) -> KubeconfigRefusal:
    return KubeconfigRefusal(reason=ClusterReason.BAD_KUBE_CONFIG, message=message)


def _insecure(message: str) -> KubeconfigRefusal:
    return KubeconfigRefusal(reason=ClusterReason.INSECURE_KUBE_CONFIG, message=message)
