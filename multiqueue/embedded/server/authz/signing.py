"""Signs and checks tokens (JWT with ES256) with one key of this server."""

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

ALGORITHM = "ES256"
_HALF = 32
"""Bytes of each of the two numbers in a signature."""
SIGNATURE_LENGTH = 86
"""Characters of an encoded signature."""
_SIGNATURE = ec.ECDSA(hashes.SHA256())


class NotSigned(Exception):  # noqa: N818 - what it is
    """A text that is not a token signed by this key."""


def create_key() -> bytes:
    """A new private key as PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


class Signer:
    """Signs claims, and reads them back."""

    def __init__(self, key: bytes) -> None:
        private = serialization.load_pem_private_key(key, password=None)
        assert isinstance(private, ec.EllipticCurvePrivateKey), "made by create_key"
        self._private = private
        self._public = private.public_key()
        point = self._public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        header = {"alg": ALGORITHM, "kid": _encode(hashlib.sha256(point).digest())}
        self._header = _encode(orjson.dumps(header))

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return a token with these claims."""
        text = f"{self._header}.{_encode(orjson.dumps(claims))}"
        first, second = decode_dss_signature(self._private.sign(text.encode(), _SIGNATURE))
        raw = first.to_bytes(_HALF, "big") + second.to_bytes(_HALF, "big")
        return f"{text}.{_encode(raw)}"

    def read(self, token: str) -> dict[str, Any]:
        """Return the claims of a token.

        Raises:
            NotSigned: it is not a token signed by this key.
        """
        text, _, signature = token.rpartition(".")
        header, _, payload = text.partition(".")
        if header != self._header:
            raise NotSigned("another key or algorithm")
        try:
            raw = _decode(signature)
            numbers = (int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
            self._public.verify(encode_dss_signature(*numbers), text.encode(), _SIGNATURE)
        except (InvalidSignature, ValueError) as error:
            raise NotSigned("the signature is wrong") from error
        claims: dict[str, Any] = orjson.loads(_decode(payload))
        return claims


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    """Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
