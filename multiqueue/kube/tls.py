"""TLS contexts for requests to API servers and for our own servers."""

from __future__ import annotations

import os
import ssl
import tempfile
from asyncio import sslproto
from pathlib import Path
from typing import TYPE_CHECKING

from multiqueue.kube.credential_sources import Material
from multiqueue.kube.errors import CredentialsError

if TYPE_CHECKING:
    from multiqueue.api.config.types import Tls


READ_BYTES = 32 * 1024
"""What a TLS connection reads at once. Each connection keeps a buffer of this size. A manager has
one connection for each kind of object that it watches: about 40, and 40 more for each worker.
With asyncio's 256 KiB their buffers would grow to 10 MiB for each worker."""


def limit_read_buffers() -> None:
    """Give the TLS connections that this process opens from now on buffers of `READ_BYTES`."""
    sslproto.SSLProtocol.max_size = READ_BYTES


def build_ssl_context(material: Material) -> ssl.SSLContext | None:
    """Return the context for a server; None if it speaks plain HTTP.

    Raises:
        CredentialsError: CA or client certificate are not usable PEM.
    """
    if not material.server.lower().startswith("https:"):
        return None
    limit_read_buffers()
    try:
        context = ssl.create_default_context(cadata=material.ca.decode() if material.ca else None)
        if hasattr(ssl, "VERIFY_X509_STRICT"):
            # Python 3.13 requires extensions that many clusters' CAs lack; Go does not.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not material.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if material.client_certificate:
            load_key_pair(context, material.client_certificate, material.client_key or b"")
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(
            f"the CA or client certificate for {material.server} is not usable PEM "
            f"({type(error).__name__})"
        ) from None
    return context


def build_server_context(options: Tls) -> ssl.SSLContext:
    """Return the context of one of our servers, without a certificate yet.

    Args:
        options: a valid ``tls`` section; the lowest version is TLS 1.2 unless it says otherwise.

    Raises:
        ValueError: the OpenSSL of this process lacks a requested setting; names the field.
    """
    # Imported here because clients do not need the configuration's modules.
    from multiqueue.api.config.tls import CIPHER_SUITES, CURVES

    limit_read_buffers()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ciphers = [CIPHER_SUITES[name] for name in options.cipher_suites if name in CIPHER_SUITES]
    only_newest = options.min_version == "VersionTLS13" or (options.cipher_suites and not ciphers)
    context.minimum_version = ssl.TLSVersion.TLSv1_3 if only_newest else ssl.TLSVersion.TLSv1_2
    if ciphers:
        try:
            context.set_ciphers(":".join(ciphers))
        except ssl.SSLError as error:
            raise ValueError(
                f"tls.cipherSuites: this OpenSSL offers none of them: {error}"
            ) from None
    for name in options.curve_preferences:  # one at most: the configuration is valid
        try:
            context.set_ecdh_curve(CURVES[name])
        except ValueError:
            raise ValueError(f'tls.curvePreferences: this OpenSSL lacks "{name}"') from None
    return context


def load_key_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Use this certificate from the next connection on.

    Python loads certificates from files only, so a private file exists for a moment.

    Raises:
        ssl.SSLError, ValueError: they are not usable PEM, or no pair; the earlier ones stay.
    """
    descriptor, name = tempfile.mkstemp(prefix="multiqueue-")  # 0600, ours
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + b"\n" + key)
        for each in (ssl.SSLContext(context.protocol), context):  # OpenSSL keeps half of a pair
            each.load_cert_chain(name, password=_no_password)
    finally:
        Path(name).unlink()


def _no_password() -> str:
    raise ValueError("the client key is encrypted")  # instead of asking on the terminal
