"""Sources of credentials: data, files, kubernetes-asyncio's loaders, a service account.

kubernetes-asyncio's loader fills its `Configuration`, from which we take the credentials. It is
imported in a thread on first use, because that costs half a second and 40 MB. Contexts without a
sign-in (CA, token or client certificate, as data or in files) skip it, so that the CLI and the
embedded clusters start at once.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from multiqueue.kube.errors import CredentialsError
from multiqueue.kube.kubeconfig import KubeconfigContext, shown

LOAD_SECONDS = 60.0
"""How long an exec plugin or identity provider may take; all requests to the cluster wait for it.
"""

FILE_KEYS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_DATA_KEYS = ("certificate-authority-data", "client-certificate-data", "client-key-data")
_INLINE_CLUSTER = {
    "server",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "proxy-url",
    "extensions",
}
_INLINE_USER = {
    "token",
    "client-certificate-data",
    "client-key-data",
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """The credentials that one load returns; equal material means that nothing changed.

    Attributes:
        impersonation: Headers that ask the server to act as somebody else, with their values.
    """

    server: str
    authorization: str | None = field(default=None, repr=False)
    ca: bytes | None = None
    client_certificate: bytes | None = None
    client_key: bytes | None = field(default=None, repr=False)
    verify: bool = True
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()
    expires_at: datetime | None = None

    @property
    def tls(self) -> tuple[object, ...]:
        """The values that the TLS context is built from."""
        return (self.ca, self.client_certificate, self.client_key, self.verify)


Load = Callable[[], Awaitable[Material]]
InlineTls = tuple[bytes | None, bytes | None, bytes | None]
"""CA, client certificate, client key."""


def is_inline(picked: KubeconfigContext) -> bool:
    """Tell whether the kubeconfig itself has all data, so that nothing must be loaded."""
    return picked.cluster.keys() <= _INLINE_CLUSTER and picked.user.keys() <= _INLINE_USER


def _is_plain(picked: KubeconfigContext) -> bool:
    """Tell whether no sign-in is needed: everything is data, or is read from files."""
    files = set(FILE_KEYS)
    return (
        picked.cluster.keys() <= _INLINE_CLUSTER | files
        and picked.user.keys() <= _INLINE_USER | files
    )


def uses_files(picked: KubeconfigContext) -> bool:
    """Tell whether the context names files, which may change while we run."""
    return any(key in picked.cluster or key in picked.user for key in FILE_KEYS)


async def load_context(picked: KubeconfigContext) -> Material:
    """Load the credentials of a context.

    Raises:
        CredentialsError: a key is wrong; the message names it and never repeats a value.
    """
    if is_inline(picked):
        return _plain_material(picked)
    if _is_plain(picked):
        return await asyncio.to_thread(_plain_material, picked)
    loaded = await load_with_library(picked)
    return replace(loaded, impersonation=_impersonation(picked))


async def load_service_account(directory: Path, environ: Mapping[str, str]) -> Material:
    """Load the service account of the Pod that we run in.

    Raises:
        CredentialsError: this process is not in a Pod, or the Pod has no token mounted.
    """
    library = await _import_library()

    def read() -> Material:
        configuration = library.client.Configuration()
        with _explained():
            library.config.load_incluster_config(
                client_configuration=configuration,
                try_refresh_token=False,  # our own refresh also follows a rotated CA
                token_filename=str(directory / "token"),
                cert_filename=str(directory / "ca.crt"),
                environ=environ,
            )
        return _material_of(configuration)

    return await asyncio.to_thread(read)


def _plain_material(picked: KubeconfigContext) -> Material:
    """Return the credentials from data and files; data take precedence."""
    cluster, user = picked.cluster, picked.user
    ca, certificate, key = _inline_tls(picked)
    token = user.get("token")
    if not token and (content := _read_file(user.get("tokenFile"))):
        token = content.decode("ascii", "replace").strip()
    return Material(
        server=cluster["server"],
        authorization=f"Bearer {token}" if token else None,
        ca=ca or _read_file(cluster.get("certificate-authority")),
        verify=cluster.get("insecure-skip-tls-verify") is not True,
        impersonation=_impersonation(picked),
        client_certificate=certificate or _read_file(user.get("client-certificate")),
        client_key=key or _read_file(user.get("client-key")),
        server_name=cluster.get("tls-server-name") or None,
        proxy=cluster.get("proxy-url") or None,
        expires_at=_expiry(token, None),
    )


def _impersonation(picked: KubeconfigContext) -> tuple[tuple[str, str], ...]:
    """Return the headers of ``as``, ``as-uid``, ``as-groups`` and ``as-user-extra``.

    Raises:
        CredentialsError: groups or others without a user, or of a wrong type.
    """
    user = picked.user
    groups, extra = user.get("as-groups") or (), user.get("as-user-extra") or {}
    who = f'kubeconfig: user "{shown(picked.user_name)}"'
    if not _is_texts(groups):
        raise CredentialsError(f"{who}: as-groups is not a list of strings")
    if not isinstance(extra, Mapping) or not all(map(_is_texts, extra.values())):
        raise CredentialsError(f"{who}: as-user-extra does not map names to lists of strings")
    headers = [("Impersonate-User", user.get("as")), ("Impersonate-Uid", user.get("as-uid"))]
    headers += [("Impersonate-Group", group) for group in groups]
    headers += [
        (f"Impersonate-Extra-{quote(str(key).lower(), safe='')}", value)
        for key, values in extra.items()
        for value in values
    ]
    found = tuple((name, value) for name, value in headers if value)
    if found and not user.get("as"):
        raise CredentialsError(f'{who} acts as nobody: set "as" beside its groups, uid or extra')
    return found


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def _inline_tls(picked: KubeconfigContext) -> InlineTls:
    return (
        _decode_base64(picked.cluster, "certificate-authority-data"),
        _decode_base64(picked.user, "client-certificate-data"),
        _decode_base64(picked.user, "client-key-data"),
    )


async def load_with_library(picked: KubeconfigContext) -> Material:
    """Let kubernetes-asyncio authenticate.

    It gets no inline data, because it would leave them in files.
    """
    library = await _import_library()
    inline = _inline_tls(picked)
    loader = library.config.kube_config.KubeConfigLoader(
        config_dict={
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": _without(picked.cluster, _DATA_KEYS)}],
            "users": [{"name": "u", "user": _never_refreshed(_without(picked.user, _DATA_KEYS))}],
        }
    )
    configuration = library.client.Configuration()
    with _explained():
        async with asyncio.timeout(LOAD_SECONDS):
            await loader.load_and_set(configuration)
    exec_expiry = getattr(loader, "exec_plugin_expiry", None)
    material = await asyncio.to_thread(_material_of, configuration, inline, exec_expiry)
    if material.authorization is None and "exec" in picked.user and not material.client_certificate:
        raise CredentialsError(
            f'kubeconfig: the exec plugin of context "{picked.name}" gave no token'
        )
    return material


def _material_of(
    configuration: Any, inline: InlineTls = (None, None, None), exec_expiry: datetime | None = None
) -> Material:
    authorization = configuration.api_key.get("BearerToken")
    ca, certificate, key = inline
    return Material(
        server=configuration.host,
        authorization=authorization.strip() if authorization else None,
        ca=ca or _read_file(configuration.ssl_ca_cert),
        client_certificate=certificate or _read_file(configuration.cert_file),
        client_key=key or _read_file(configuration.key_file),
        verify=configuration.verify_ssl,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
        expires_at=_expiry(authorization, exec_expiry),
    )


async def _import_library() -> Any:
    """Import kubernetes-asyncio without holding up the loop."""

    def load() -> Any:
        import kubernetes_asyncio
        import kubernetes_asyncio.config

        return kubernetes_asyncio

    return await asyncio.to_thread(load)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn any exception that the library raises for a bad kubeconfig into one error."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a bad kubeconfig raises KeyError, TypeError, …
        words = str(error) if type(error).__name__ == "ConfigException" else type(error).__name__
        if "cannot refresh" in words:
            words = (
                "the OIDC token is missing or has expired, and multiqueue never refreshes one: "
                "sign in again with kubectl, or use an exec plugin such as kubelogin"
            )
        raise CredentialsError(f"credentials cannot be loaded: {words}") from None


def _never_refreshed(user: dict[str, Any]) -> dict[str, Any]:
    """Drop the refresh token of OIDC: the library would send it to a provider it did not verify."""
    provider = user.get("auth-provider")
    if not isinstance(provider, Mapping) or not isinstance(provider.get("config"), Mapping):
        return user
    config = _without(provider["config"], ("refresh-token",))
    return {**user, "auth-provider": {**provider, "config": config}}


def _expiry(authorization: str | None, exec_expiry: datetime | None) -> datetime | None:
    """Return the token's expiry, from the exec plugin or from the token if it is a JWT."""
    if exec_expiry is not None:
        return exec_expiry if exec_expiry.tzinfo else exec_expiry.replace(tzinfo=UTC)
    parts = (authorization or "").removeprefix("Bearer ").split(".")
    if len(parts) != 3:
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        expires = orjson.loads(base64.urlsafe_b64decode(padded)).get("exp")
        return datetime.fromtimestamp(float(expires), UTC) if expires else None
    except (ValueError, TypeError, AttributeError, OverflowError, OSError):
        return None


def _read_file(path: str | None) -> bytes | None:
    if not path:
        return None
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise CredentialsError(f'kubeconfig: file "{path}": {error.strerror}') from error
    if not content:
        raise CredentialsError(f'kubeconfig: file "{path}" is empty')
    return content


def _decode_base64(entry: Mapping[str, Any], key: str) -> bytes | None:
    value = entry.get(key)
    if not value:
        return None
    try:
        # Strict: without this, a garbled CA could become no CA, and the system's would be trusted.
        decoded = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        raise CredentialsError(f"kubeconfig: {key} is not base64") from None
    if not decoded:
        raise CredentialsError(f"kubeconfig: {key} is empty")
    return decoded


def _without(entry: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in keys}
