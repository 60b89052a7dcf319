"""Sources of our servers' certificates: a Secret that we manage, or files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from multiqueue.kube.certificate_bundle import Bundle, decode_secret, encode_secret, renew_bundle
from multiqueue.kube.client import KubeClient
from multiqueue.kube.clock import Clock
from multiqueue.kube.errors import AlreadyExists, Conflict, NotFound
from multiqueue.kube.resources import SECRETS
from multiqueue.kube.retries import RACE

log = structlog.get_logger(component="certificates")


@dataclass(frozen=True, slots=True)
class Serving:
    """A server's certificate and key, and the authority that clients should trust; PEM.

    An empty authority means that somebody else gives clients the authority.
    """

    certificate: bytes
    key: bytes
    authority: bytes


class CertificateSource(Protocol):
    """Loads the current certificate, and renews it if necessary."""

    async def load(self) -> Serving:
        """Return the certificate to serve now."""


class SecretCertificates:
    """Our own authority, shared by all replicas through a Secret (internalCertManagement)."""

    def __init__(
        self, client: KubeClient, clock: Clock, *, namespace: str, name: str, hosts: Sequence[str]
    ) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._hosts = tuple(hosts)

    async def load(self) -> Serving:
        """Read the Secret; create or renew its content if that is due.

        Raises:
            KubeError: the API server does not answer, or every write conflicts with another writer.
        """
        return await RACE.run(self._load_once, on=(AlreadyExists, Conflict))

    async def _load_once(self) -> Serving:
        now = self._clock.now()
        try:
            secret = await self._client.get(SECRETS, self._name, namespace=self._namespace)
        except NotFound:
            bundle = renew_bundle(None, self._hosts, now)
            wanted = encode_secret(bundle, namespace=self._namespace, name=self._name)
            await self._client.create(SECRETS, wanted, namespace=self._namespace)
            log.info("certificate created", name=self._name, hosts=self._hosts)
            return _serving(bundle)
        known = decode_secret(secret)
        bundle = renew_bundle(known, self._hosts, now)
        if bundle != known:
            data = encode_secret(bundle, namespace=self._namespace, name=self._name)["data"]
            patch = {
                "metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]},
                "data": data,
            }
            await self._client.patch(SECRETS, self._name, patch, namespace=self._namespace)
            log.info("certificate renewed", name=self._name, hosts=self._hosts)
        return _serving(bundle)


def _serving(bundle: Bundle) -> Serving:
    return Serving(bundle.certificate, bundle.certificate_key, bundle.authority)


class FileCertificates:
    """Files that cert-manager or another tool renews (internalCertManagement off)."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def load(self) -> Serving:
        """Read the files.

        Raises:
            OSError: certificate or key cannot be read.
        """
        return await asyncio.to_thread(self._read)

    def _read(self) -> Serving:
        authority = self._directory / "ca.crt"
        return Serving(
            certificate=(self._directory / "tls.crt").read_bytes(),
            key=(self._directory / "tls.key").read_bytes(),
            authority=authority.read_bytes() if authority.exists() else b"",
        )
