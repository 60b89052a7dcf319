"""TLS towards API servers, built from certificates in memory."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from multiqueue.kube.credential_sources import Material
from multiqueue.kube.errors import CredentialsError


def build_ssl_context(material: Material) -> ssl.SSLContext | None:
    """Return the context for a server; None where it speaks plain HTTP.

    Raises:
        CredentialsError: CA or client certificate are no usable PEM.
    """
    if not material.server.startswith("https"):
        return None
    try:
        context = ssl.create_default_context(cadata=material.ca.decode() if material.ca else None)
        if hasattr(ssl, "VERIFY_X509_STRICT"):
            # Python 3.13 demands extensions that many clusters' CAs lack; Go does not.
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


def load_key_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show this certificate from the next connection on.

    Python loads certificates from files only: a private one, gone at once.

    Raises:
        ssl.SSLError, ValueError: they are no usable PEM.
    """
    descriptor, name = tempfile.mkstemp(prefix="multiqueue-")  # 0600, ours
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(name, password=_no_password)
    finally:
        Path(name).unlink()


def _no_password() -> str:
    raise ValueError("the client key is encrypted")  # instead of asking on the terminal
