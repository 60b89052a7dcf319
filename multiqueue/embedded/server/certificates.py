"""The server's own certificate authority, and the TLS context with which it answers."""

import ssl
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from multiqueue.kube import certificates
from multiqueue.kube.certificates import KeyPair as Authority

__all__ = ["Authority", "create_authority", "server_context"]


def create_authority(now: datetime) -> Authority:
    """Make an authority that lives as long as a data directory is likely to."""
    return certificates.create_authority("multiqueue-apiserver-ca", now)


def server_context(authority: Authority, hosts: Sequence[str], now: datetime) -> ssl.SSLContext:
    """A TLS context with a fresh certificate for these host names and addresses.

    A new one is issued at every start.
    """
    server = certificates.issue_certificate(authority, "multiqueue-apiserver", hosts, now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:  # the ssl module loads keys from files only
        path = Path(folder, "server.pem")
        path.touch(mode=0o600)
        path.write_bytes(server.key + server.certificate)
        context.load_cert_chain(path)
    return context
