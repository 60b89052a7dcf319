"""Credentials from a program on this machine: the client.authentication.k8s.io protocol.

The program runs without a terminal and without a shell, with bounds on time and output. Errors
never repeat its output. It runs again before the credentials expire.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from multiqueue.kube.clock import Clock
from multiqueue.kube.credential_sources import Material
from multiqueue.kube.credentials import Credentials
from multiqueue.kube.errors import CredentialsError
from multiqueue.lib.moments import in_utc

RUN_SECONDS = 30.0
"""How long a plugin may take: it may have to ask an identity provider."""
MAX_OUTPUT = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that gives credentials.

    Attributes:
        command: The program, by path or by name.
        args: The program's arguments.
        env: Variables that the program gets besides ours.
        api_version: The version of the protocol.
        cluster: The cluster data that the program gets; empty: none.
        install_hint: Advice to show if the program is missing.
    """

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    cluster: Mapping[str, Any] | None = None
    install_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The server that the credentials are for."""

    server: str
    ca: bytes | None = None
    server_name: str | None = None
    proxy: str | None = None


async def open_exec_credentials(
    plugin: ExecPlugin, endpoint: Endpoint, clock: Clock
) -> Credentials:
    """Ask a plugin for credentials, and again whenever they are about to expire.

    Raises:
        CredentialsError: the plugin is missing, fails, or gives no usable credentials.
    """

    async def load() -> Material:
        return build_material(await run_plugin(plugin), plugin, endpoint)

    return Credentials(await load(), load=load, clock=clock)


async def run_plugin(plugin: ExecPlugin) -> bytes:
    """Run a plugin and return its output.

    Raises:
        CredentialsError: the plugin cannot be run, or fails.
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
    """Read the output up to a little more than the allowed size."""
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
        CredentialsError: the output is not an ExecCredential, or has no usable credentials.
    """
    what = f'exec plugin "{plugin.command}"'
    try:
        answer = orjson.loads(output)
        status = answer["status"]
        version, token = answer["apiVersion"], status.get("token")
        certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
        expires = status.get("expirationTimestamp")
        expires_at = in_utc(datetime.fromisoformat(expires)) if expires else None
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
