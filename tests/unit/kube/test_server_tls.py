from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

import pytest

from multiqueue.api.config import ConfigurationError, load_configuration
from multiqueue.kube import certificates
from multiqueue.kube.tls import build_server_context, load_key_pair

AUTHORITY = certificates.create_authority("test", datetime.now(UTC))
REFUSED = (ssl.SSLError, ConnectionResetError)
PAIR = certificates.issue_certificate(AUTHORITY, "a", ["127.0.0.1"], datetime.now(UTC))


def tls(text: str) -> ssl.SSLContext:
    return build_server_context(load_configuration(f"tls: {{{text}}}").tls)


async def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str, str]:
    """(version, cipher) that both agree on."""
    load_key_pair(server, PAIR.certificate, PAIR.key)
    client.load_verify_locations(cadata=AUTHORITY.certificate.decode())

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listener = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=server)
    port = listener.sockets[0].getsockname()[1]
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        shown = writer.get_extra_info("ssl_object")
        writer.close()
        return shown.version(), shown.cipher()[0]
    finally:
        listener.close()


def a_client(newest: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.maximum_version = newest
    return context


async def test_tls_12_is_the_least_by_default() -> None:
    assert tls("").minimum_version == ssl.TLSVersion.TLSv1_2
    version, _ = await handshake(tls(""), a_client(ssl.TLSVersion.TLSv1_2))
    assert version == "TLSv1.2"


async def test_a_newer_least_version_is_kept() -> None:
    with pytest.raises(REFUSED):
        await handshake(tls("minVersion: VersionTLS13"), a_client(ssl.TLSVersion.TLSv1_2))


async def test_only_the_named_cipher_suites_are_offered() -> None:
    server = tls("cipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]")
    _, cipher = await handshake(server, a_client(ssl.TLSVersion.TLSv1_2))
    assert cipher == "ECDHE-ECDSA-AES256-GCM-SHA384"
    client = a_client(ssl.TLSVersion.TLSv1_2)
    client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with pytest.raises(REFUSED):
        await handshake(server, client)


def test_suites_of_tls_13_alone_leave_nothing_for_tls_12() -> None:
    context = tls("cipherSuites: [TLS_AES_128_GCM_SHA256]")
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3


async def test_only_the_named_curve_is_offered() -> None:
    server = tls("curvePreferences: [CurveP384]")
    client = a_client(ssl.TLSVersion.TLSv1_3)
    client.set_ecdh_curve("prime256v1")
    with pytest.raises(REFUSED):
        await handshake(server, client)
    client = a_client(ssl.TLSVersion.TLSv1_3)
    client.set_ecdh_curve("secp384r1")
    assert (await handshake(server, client))[0] == "TLSv1.3"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cipherSuites: [ECDHE-RSA-AES128-SHA]", r"tls\.cipherSuites\[0\].*is not supported"),
        ("cipherSuites: [TLS_RSA_WITH_RC4_128_SHA]", r"tls\.cipherSuites\[0\]"),
        ("curvePreferences: [P256]", r"tls\.curvePreferences\[0\]"),
        ("curvePreferences: [CurveP256, X25519]", r"tls\.curvePreferences: an order of several"),
        ("minVersion: VersionTLS11", r"tls\.minVersion"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load_configuration(f"tls: {{{text}}}")
