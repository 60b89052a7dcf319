"""aiohttp, imported without the authorities of the system.

On import, aiohttp loads them for requests without a TLS context of their own, which takes a tenth
of the time of a short command. Every request here has its own context; one without trusts no
server.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator

__all__ = ["aiohttp"]


@contextlib.contextmanager
def _without_authorities() -> Iterator[None]:
    make = ssl.create_default_context
    ssl.create_default_context = lambda *_, **__: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The context for requests that verify nothing loads them, too. The class inherits the method.
    ssl.SSLContext.set_default_verify_paths = lambda _: None  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        del ssl.SSLContext.set_default_verify_paths
        ssl.create_default_context = make


with _without_authorities():
    import aiohttp
