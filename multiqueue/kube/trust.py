"""Checks whether an API server will trust the certificate of one of our servers.

If an API server does not trust a webhook, it cannot call it, and refuses every write that needs its
answer. So the certificate is checked before the webhook is registered.
"""

from __future__ import annotations

import contextlib
import ssl

from multiqueue.kube.tls import load_key_pair

_MESSAGES = 8
"""Rounds of a TLS handshake; it takes three messages, and one with more rounds never ends."""


class CertificateTrust:
    """Checks one certificate against caBundles, as an API server does.

    Args:
        certificate: PEM, with intermediate certificates after it.
        key: The certificate's key.
        host: The name by which the API server calls us.

    Raises:
        ssl.SSLError, ValueError: certificate and key are unusable, or not a pair.
    """

    def __init__(self, certificate: bytes, key: bytes, host: str) -> None:
        self.host = host
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_key_pair(self._server, certificate, key)
        self._known: dict[bytes, str | None] = {}

    def find_problem(self, bundle: bytes) -> str | None:
        """Return why a client with these authorities would end the connection, or None.

        An empty bundle stands for the authorities of the system, as it does for an API server.
        """
        if bundle not in self._known:
            self._known[bundle] = self._judge(bundle)
        return self._known[bundle]

    def choose(self, wanted: bytes, current: bytes) -> tuple[bytes, str | None]:
        """Return the bundle that should be registered, and its problem, if any.

        It is ours if that is good; otherwise the registered one, which another tool may have
        injected.
        """
        if wanted and self.find_problem(wanted) is None:
            return wanted, None
        problem = self.find_problem(current)
        if problem is not None and wanted and not current:
            problem = self.find_problem(wanted)
        return current, problem

    def _judge(self, bundle: bytes) -> str | None:
        try:
            client = ssl.create_default_context(cadata=bundle.decode("ascii") or None)
        except (ssl.SSLError, UnicodeDecodeError):
            return "the caBundle cannot be read: it is no PEM certificate"
        # As in Go: extensions may be missing, any certificate of the bundle may be the anchor, and
        # only subject alternative names count as names.
        client.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        client.hostname_checks_common_name = False
        try:
            _shake_hands(client, self._server, self.host)
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message.rstrip(".")
            if bundle:
                return why
            return f"{why}; there is no caBundle, so only public authorities are trusted"
        return None


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> None:
    """Let both sides talk in memory until the client knows whether it trusts the server."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(to_client, to_server, server_hostname=host)
    answers = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_MESSAGES):
        try:
            asks.do_handshake()
        except ssl.SSLWantReadError:
            with contextlib.suppress(ssl.SSLWantReadError):
                answers.do_handshake()
        else:
            return
    raise ssl.SSLError("the TLS handshake does not end")
