"""What aiohttp's connection errors mean, in words that stay the same from one attempt to the next.

Their own texts show object addresses and how the library was called; whoever is on call needs the
address that was tried and what came of it.
"""

from __future__ import annotations

import os
import ssl

from multiqueue.kube.lean_aiohttp import aiohttp


def describe_failure(error: Exception) -> str:
    """Return `host:port: what happened` where the address is known, else what happened."""
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
