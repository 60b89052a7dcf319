"""An issuer of ID tokens, as a company has one, with what an API server asks of it."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from multiqueue.kube.certificates import create_authority, issue_certificate
from multiqueue.kube.clock import SystemClock
from multiqueue.kube.tls import load_key_pair
from tests.controlplane.plane import HOST

AUDIENCE, PREFIX = "kubernetes", "company:"


def encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


class OidcIssuer:
    """Serves its keys, and signs tokens.

    Args:
        folder: Where the certificate of its authority goes.

    Attributes:
        arguments: What makes an API server trust it.
    """

    def __init__(self, folder: Path) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        now = SystemClock().now()
        authority = create_authority("company", now)
        pair = issue_certificate(authority, "login", [HOST], now)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        load_key_pair(context, pair.certificate, pair.key)
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"https://{HOST}:{self._server.server_port}"
        file = folder / "company.crt"
        file.write_bytes(authority.certificate)
        self.arguments = (
            f"--oidc-issuer-url={self.url}",
            f"--oidc-ca-file={file}",
            f"--oidc-client-id={AUDIENCE}",
            "--oidc-username-claim=name",
            f"--oidc-username-prefix={PREFIX}",
            "--oidc-groups-claim=groups",
        )

    def token(self, name: str, *, seconds: float = 600.0, **claims: Any) -> str:
        """Return an ID token."""
        now = int(time.time())
        known = {"iss": self.url, "aud": AUDIENCE, "sub": name, "name": name, "iat": now}
        head = {"alg": "RS256", "kid": "one"}
        parts = (head, {**known, "exp": now + int(seconds), **claims})
        signed = ".".join(encode(json.dumps(part).encode()) for part in parts)
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), SHA256())
        return f"{signed}.{encode(signature)}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                keys = self.path == "/keys"
                body = json.dumps(issuer.keys() if keys else issuer.describe()).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler

    def describe(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def keys(self) -> dict[str, Any]:
        numbers = self.key.public_key().public_numbers()
        modulus, exponent = numbers.n.to_bytes(256), numbers.e.to_bytes(3)
        key = {"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig"}
        return {"keys": [{**key, "n": encode(modulus), "e": encode(exponent)}]}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
