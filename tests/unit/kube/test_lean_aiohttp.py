"""aiohttp does not read the system's authorities, and trusts nobody instead."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import ssl
make = ssl.create_default_context
loaded = []
ssl.SSLContext.load_default_certs = lambda *_: loaded.append("authorities")

from multiqueue.kube import transport
import aiohttp.connector

context = aiohttp.connector._SSL_CONTEXT_VERIFIED
print(context.cert_store_stats()["x509_ca"], context.verify_mode.name, context.check_hostname)
print(loaded, ssl.create_default_context is make)
"""


def test_a_request_without_a_context_of_its_own_would_trust_nobody() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["0 CERT_REQUIRED True", "[] True"]
