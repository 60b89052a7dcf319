"""Texts for aiohttp's connection errors that are the same for every attempt.

The library's own texts contain object addresses and its call arguments. An operator needs the
address that was tried and the outcome.
"""

from __future__ import annotations

import os
import ssl

from multiqueue.kube.lean_aiohttp import aiohttp


def describe_failure(error: Exception) -> str:
    """Return `host:port: what happened` if the address is known, else what happened."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{error.host}:{error.port}: {_cause(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {_cause(error.os_error)}"
    return _cause(error)


def _cause(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return error.reason.replace("_", " ").lower() if error.reason else str(error)
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection broke off in the middle of an answer"
    return str(error) or type(error).__name__
