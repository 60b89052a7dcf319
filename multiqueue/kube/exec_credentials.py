"""Credentials that a program on this machine gives: the client.authentication.k8s.io protocol.

Run without a terminal and without a shell, with a bound on time and output; what it prints is never
repeated in an error. The credentials are asked for again before they end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from multiqueue.kube.clock import Clock
from multiqueue.kube.credential_sources import Material
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import CredentialsError

RUN_SECONDS = 30.0
"""How long a plugin may take: it may have to ask an identity provider."""
MAX_OUTPUT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that gives credentials.

    Attributes:
        command: What to run, by path or by name.
        args: Its arguments.
        env: Variables that it gets besides ours.
        api_version: Of the protocol.
        cluster: What it is told of the cluster; empty: nothing.
        install_hint: What to tell where it is missing.
    """

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    cluster: Mapping[str, Any] | None = None
    install_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the credentials are used."""

    server: str
    ca: bytes | None = None
    server_name: str | None = None
    proxy: str | None = None


async def open_exec_credentials(
    plugin: ExecPlugin, endpoint: Endpoint, clock: Clock
) -> Credentials:
    """Ask a plugin for credentials, and again whenever they are about to end.

    Raises:
        CredentialsError: the plugin is missing, fails, or gives nothing that can be used.
    """

    async def load() -> Material:
        return build_material(await run_plugin(plugin), plugin, endpoint)

    return Credentials(await load(), load=load, clock=clock)


async def run_plugin(plugin: ExecPlugin) -> bytes:
    """Return what a plugin prints.

    Raises:
        CredentialsError: it cannot be run, or fails.
    """
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **dict(plugin.env)}
    what = f'exec plugin "{plugin.command}"'
    try:
        environment["KUBERNETES_EXEC_INFO"] = orjson.dumps(info).decode()
    except TypeError:  # it nests deeper than JSON may here
        raise CredentialsError(f"{what} cannot be told of the cluster: too much nesting") from None
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        raise CredentialsError(f"{what} cannot be run: {error.strerror}{hint}") from None
    try:
        async with asyncio.timeout(RUN_SECONDS):
            output = await _read(process)
            code = await process.wait()
    except TimeoutError:
        raise CredentialsError(f"{what} took longer than {RUN_SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if len(output) > MAX_OUTPUT:
        raise CredentialsError(f"{what} printed too much")
    if code:
        raise CredentialsError(f"{what} failed with exit status {code}")
    return output


async def _read(process: asyncio.subprocess.Process) -> bytes:
    """Read the output, but not much more than is allowed."""
    assert process.stdout is not None
    output = b""
    while len(output) <= MAX_OUTPUT and (piece := await process.stdout.read(65536)):
        output += piece
    if len(output) > MAX_OUTPUT:
        process.kill()
        while await process.stdout.read(65536):
            pass  # a pipe is not closed before its end is read
    return output


def build_material(output: bytes, plugin: ExecPlugin, endpoint: Endpoint) -> Material:
    """Read an ExecCredential.

    Raises:
        CredentialsError: it is none, or holds nothing to use.
    """
    what = f'exec plugin "{plugin.command}"'
    try:
        answer = orjson.loads(output)
        status = answer["status"]
        version, token = answer["apiVersion"], status.get("token")
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        expires = status.get("expirationTimestamp")
        expires_at = datetime.fromisoformat(expires).astimezone(UTC) if expires else None
        pair = (certificate.encode(), key.encode()) if certificate and key else (None, None)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CredentialsError(f"{what} printed no ExecCredential") from None
    if version != plugin.api_version:
        raise CredentialsError(f"{what} answers in another version than {plugin.api_version}")
    if not token and pair[0] is None:
        raise CredentialsError(f"{what} gave neither a token nor a certificate with its key")
    return Material(
        server=endpoint.server,
        authorization=f"Bearer {token}" if token else None,
        ca=endpoint.ca,
        client_certificate=pair[0],
        client_key=pair[1],
        server_name=endpoint.server_name,
        proxy=endpoint.proxy,
        expires_at=expires_at,
    )
