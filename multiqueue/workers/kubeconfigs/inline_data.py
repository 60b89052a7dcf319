"""Certificates and keys inside a kubeconfig: whether they can be used at all.

Checked before anything connects, so that a problem is reported with its key instead of failing
inside the TLS library at every attempt. Pure; no message repeats a value.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Callable, Mapping
from typing import Any

CA, CERTIFICATE, KEY = (
    "certificate-authority-data",
    "client-certificate-data",
    "client-key-data",
)
MAX_KEY_BYTES = 16 << 10
"""An RSA key of 16,384 bits takes 12,600 bytes. The time to check a key grows with the cube of its
size: a key four times as large takes 14 seconds."""


def find_bad_data(entry: Mapping[str, Any]) -> str:
    """Return what is wrong with the inline data of a cluster or user; empty if nothing is."""
    for key, load in _LOADERS.items():
        value = entry.get(key)
        if not value:
            continue
        if not isinstance(value, str):
            return f"{key} is not a string"
        try:
            data = base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError):
            return f"{key} is not base64"
        try:
            load(data)
        except (ssl.SSLError, ValueError, TypeError):
            return f"{key} is not usable PEM"
    return ""


def _load_certificates(data: bytes) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii"))


def _load_key(data: bytes) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if len(data) > MAX_KEY_BYTES:
        raise ValueError("too large")
    try:
        load_pem_private_key(data, password=None)
    except UnsupportedAlgorithm as error:
        raise ValueError("unsupported key") from error


_LOADERS: Mapping[str, Callable[[bytes], None]] = {
    CA: _load_certificates,
    CERTIFICATE: _load_certificates,
    KEY: _load_key,
}
