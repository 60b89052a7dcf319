"""Credentials for one API server: URL, TLS, proxy and Authorization header.

Guarantees: a kubeconfig can run no command and read no file unless the caller allows it. Private
keys are on disk only as a 0600 file that is deleted before the next await. Tokens are loaded
again near their expiry, and once after a 401.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from multiqueue.kube import credential_sources as sources
from multiqueue.kube import kubeconfig
from multiqueue.kube.clock import Clock, SystemClock
from multiqueue.kube.credential_sources import Load, Material
from multiqueue.kube.errors import CredentialsError
from multiqueue.kube.server_words import list_secrets
from multiqueue.kube.tls import build_ssl_context

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FILE_REFRESH_SECONDS = 60.0
"""How often files (service account tokens, mounted certificates) are read again, as in client-go.
"""
EXPIRY_MARGIN_SECONDS = 120.0
"""How long before its expiry a token is replaced; clocks differ and requests take time."""
RENEW_PAUSE_SECONDS = 5.0
"""Shortest time between two loads after rejected tokens, for any number of 401s."""


def _same(picked: kubeconfig.KubeconfigContext) -> kubeconfig.KubeconfigContext:
    return picked


class Credentials:
    """Server, TLS and Authorization header of one API server, kept fresh.

    Build one with `from_kubeconfig_file`, `from_kubeconfig_dict`, `in_cluster` or `static`.

    Attributes:
        server: Base URL without a slash at its end.
        ssl_context: For every request; None for plain HTTP. A new object after a rotation.
        server_name: Name to expect in the server's certificate, if it is not the host's.
        proxy: HTTP proxy, from the kubeconfig or the environment.
        namespace: Namespace of the context.
    """

    def __init__(
        self,
        material: Material,
        *,
        load: Load | None = None,
        reload_seconds: float | None = None,
        namespace: str = "default",
        clock: Clock | None = None,
    ) -> None:
        self.namespace = namespace
        self.server = _check_server(material.server).rstrip("/")
        self.ssl_context = build_ssl_context(material)
        self.server_name = material.server_name
        self.proxy = material.proxy or _proxy_of_environment(self.server)
        self.material = material
        self._load = load
        self._reload_seconds = reload_seconds
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()
        self._loaded_at = float("-inf")
        self._refresh_at = float("inf")
        if load is not None:
            self._plan_refresh()

    def __repr__(self) -> str:
        return f"Credentials(server={self.server!r})"

    @classmethod
    def static(
        cls,
        server: str,
        *,
        token: str | None = None,
        ca: bytes | None = None,
        client_certificate: bytes | None = None,
        client_key: bytes | None = None,
    ) -> Self:
        """Return credentials made of the given values; certificates and key are PEM."""
        return cls(
            Material(
                server=server,
                authorization=f"Bearer {token}" if token else None,
                ca=ca,
                client_certificate=client_certificate,
                client_key=client_key,
            )
        )

    @classmethod
    async def from_kubeconfig_file(
        cls,
        path: str | os.PathLike[str],
        context: str | None = None,
        *,
        allow_exec: bool = False,
        adjust: Callable[[kubeconfig.KubeconfigContext], kubeconfig.KubeconfigContext] = _same,
        clock: Clock | None = None,
    ) -> Self:
        """Load a kubeconfig file, or several joined like ``KUBECONFIG``; a 401 reads it again.

        Args:
            path: The file, or several.
            context: A context; the current one by default.
            allow_exec: Whether it may run programs here.
            adjust: Changes fields of the context, each time that it is read.
            clock: The clock by which expiry is judged.

        Raises:
            CredentialsError: something is missing; the message names it and never repeats a value.
        """
        paths = os.fspath(path)

        async def pick() -> kubeconfig.KubeconfigContext:
            config = await asyncio.to_thread(kubeconfig.load_files, paths)
            picked = adjust(kubeconfig.pick_context(config, context))
            _refuse_disallowed(picked, allow_exec=allow_exec, allow_files=True)
            return picked

        return await cls._from_context(await pick(), pick, clock=clock)

    @classmethod
    async def from_kubeconfig_dict(
        cls,
        config: Mapping[str, Any],
        context: str | None = None,
        *,
        allow_exec: bool = False,
        allow_files: bool = False,
        clock: Clock | None = None,
    ) -> Self:
        """Load a parsed kubeconfig, such as one from a Secret: by default inline data only.

        Raises:
            CredentialsError: something is missing or not allowed; no value is repeated.
        """
        picked = kubeconfig.pick_context(config, context)
        _refuse_disallowed(picked, allow_exec=allow_exec, allow_files=allow_files)

        async def pick() -> kubeconfig.KubeconfigContext:
            return picked

        # Inline data cannot change: a changed Secret makes new credentials.
        return await cls._from_context(
            picked, None if sources.is_inline(picked) else pick, clock=clock
        )

    @classmethod
    async def in_cluster(
        cls,
        *,
        directory: Path = SERVICE_ACCOUNT,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Load the service account of the Pod that we run in; its files are reread periodically.

        Args:
            directory: The directory where the service account is mounted.
            environ: Variables with the API server's address; the process environment by default.
            clock: The clock by which expiry is judged.

        Raises:
            CredentialsError: this process is not in a Pod, or the Pod has no token mounted.
        """

        async def load() -> Material:
            return await sources.load_service_account(directory, environ or os.environ)

        return cls(
            await load(),
            load=load,
            reload_seconds=FILE_REFRESH_SECONDS,
            namespace=await asyncio.to_thread(_read_namespace, directory),
            clock=clock,
        )

    @classmethod
    async def _from_context(
        cls,
        picked: kubeconfig.KubeconfigContext,
        pick: Callable[[], Awaitable[kubeconfig.KubeconfigContext]] | None,
        *,
        clock: Clock | None,
    ) -> Self:
        async def load() -> Material:
            assert pick is not None
            return await sources.load_context(await pick())

        return cls(
            await sources.load_context(picked),
            load=load if pick else None,
            reload_seconds=FILE_REFRESH_SECONDS if sources.uses_files(picked) else None,
            namespace=picked.namespace,
            clock=clock,
        )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secret parts of these credentials, for `clean_words`."""
        material = self.material
        return list_secrets(material.authorization, material.client_key, self.proxy)

    async def authorization(self) -> str | None:
        """Return the Authorization header's value; load it again if it is about to expire."""
        if self._load is not None and asyncio.get_running_loop().time() >= self._refresh_at:
            # The old token may still be valid: let the server decide.
            with contextlib.suppress(CredentialsError):
                await self._reload(self._load)
        return self.material.authorization

    async def renew(self, rejected: str | None) -> bool:
        """Load again after a 401; tell whether there are new credentials to try.

        Args:
            rejected: The Authorization header that the server rejected.

        Raises:
            CredentialsError: the source is gone or broken.
        """
        if self.material.authorization != rejected:
            return True
        before = self.material
        if self._load is not None:
            await self._reload(self._load)
        return self.material != before

    async def _reload(self, load: Load) -> None:
        loop = asyncio.get_running_loop()
        async with self._lock:
            now = loop.time()
            if now - self._loaded_at < RENEW_PAUSE_SECONDS:
                return
            self._loaded_at = now
            self._refresh_at = now + RENEW_PAUSE_SECONDS
            before, material = self.material, await load()
            if material.tls != before.tls:
                self.ssl_context = build_ssl_context(material)
            self.material = material
            self._plan_refresh()

    def _plan_refresh(self) -> None:
        seconds = self._reload_seconds if self._reload_seconds is not None else float("inf")
        expires_at = self.material.expires_at
        if expires_at is not None:
            left = (expires_at - self._clock.now()).total_seconds()
            # A token whose lifetime is shorter than the margin is replaced half-way.
            seconds = min(seconds, max(left - EXPIRY_MARGIN_SECONDS, left / 2, RENEW_PAUSE_SECONDS))
        self._refresh_at = asyncio.get_running_loop().time() + seconds


def _refuse_disallowed(
    picked: kubeconfig.KubeconfigContext, *, allow_exec: bool, allow_files: bool
) -> None:
    if not allow_exec:
        for key in ("exec", "auth-provider"):
            if key in picked.user:
                raise CredentialsError(
                    f'kubeconfig: context "{picked.name}" uses {key}, which may run a '
                    "program here and is not allowed for this kubeconfig; use a token or a client "
                    "certificate"
                )
    if not allow_files:
        for key in sources.FILE_KEYS:
            if key in picked.user or key in picked.cluster:
                raise CredentialsError(
                    f'kubeconfig: context "{picked.name}" uses the file path {key}, which is '
                    "not allowed for this kubeconfig; put the data inline"
                )


def _check_server(server: str) -> str:
    """Return the server's URL after checking every part of it.

    Raises:
        CredentialsError: it is not a URL of a server.
    """
    try:
        parts = urlsplit(server)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise CredentialsError("the server is no URL of the form https://host:port")
    return server


def _proxy_of_environment(server: str) -> str | None:
    """Return the proxy that ``HTTPS_PROXY`` and friends ask for; never for loopback, as in Go."""
    url = urlsplit(server)
    host = url.hostname or ""
    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(url.scheme)
    if not proxy or host in {"localhost", "::1"} or host.startswith("127."):
        return None
    return None if urllib.request.proxy_bypass(host) else proxy


def _read_namespace(directory: Path) -> str:
    with contextlib.suppress(OSError):
        return (directory / "namespace").read_text().strip() or "default"
    return "default"
