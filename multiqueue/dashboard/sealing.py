"""The cookies that keep a reader's token, sealed so that only this installation can read them.

The server stores nothing about its readers, so that every replica knows each of them. Scripts of
the page cannot read the cookies. Parity: S-34.

Deviates: S-34 keeps the key in a Secret of its own. Here it is derived from the private key of the
serving certificate, which the replicas share in a Secret already. Whoever has that private key
could read the tokens at the login. So this loses nothing, and needs no further Secret, right or
rotation. A new certificate makes a new key; the one before it opens cookies until the next one, in
the replicas that saw both. Elsewhere readers log in again.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

PURPOSE = b"multiqueue dashboard session v1"
ACTION_PURPOSE = b"multiqueue dashboard action v1 of "
"""They tell these keys from any other that may be derived from the same private key."""
NONCE_BYTES = 12
MAX_KEYS = 2
"""The current key and the one before it."""
SPREAD = timedelta(minutes=10)
"""How long a new key only opens: every replica reads the certificate again within that time."""
NAMES = tuple(f"__Host-multiqueue-{part}" for part in range(2))
"""Names of the cookies; the prefix has browsers refuse them from other hosts and without TLS."""
PART_LENGTH = 3800
"""Characters of one cookie; browsers keep 4,096 bytes with its name and attributes.

S-34 allows three. All cookies travel in one header, and proxies commonly refuse one of 8 KiB.
"""
MAX_SEALED = len(NAMES) * PART_LENGTH


class LoginSession(msgspec.Struct, frozen=True, kw_only=True):
    """A reader who logged in.

    Attributes:
        token: The bearer token.
        reader: The name of its user.
        namespace: The namespace to show if the reader may not see all; may be empty.
        action: What the page sends with each action; it is known to this session only.
        expires_at: When the reader has to log in again.
    """

    token: str
    reader: str
    namespace: str
    action: str
    expires_at: datetime


class CookieSeal:
    """Seals sessions, and opens them again."""

    def __init__(self) -> None:
        self._secrets: list[bytes] = []
        self._since = datetime.min.replace(tzinfo=UTC)

    def use(self, secret: bytes, now: datetime) -> None:
        """Open, and soon seal, with a key that is derived from this secret."""
        if secret not in self._secrets[:1]:
            self._secrets, self._since = [secret, *self._secrets][:MAX_KEYS], now

    def close(self, session: LoginSession, now: datetime) -> str:
        """Return a sealed session.

        Raises:
            ValueError: its token is too long for the cookies.
        """
        nonce = secrets.token_bytes(NONCE_BYTES)
        key = AESGCM(_derive(self._shared_secret(now), PURPOSE))
        sealed = nonce + key.encrypt(nonce, msgspec.json.encode(session), PURPOSE)
        text = (
            base64.urlsafe_b64encode(sealed).decode().rstrip("=")
        )  # some clients quote values with it
        if len(text) > MAX_SEALED:
            raise ValueError(f"the token is too long: sealed it has {len(text)} characters")
        return text

    def open(self, text: str, now: datetime) -> LoginSession | None:
        """Return the session; None if it was not sealed here, was altered, or has expired."""
        try:
            sealed = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        except (ValueError, binascii.Error):
            return None
        for secret in self._secrets:
            try:
                key = AESGCM(_derive(secret, PURPOSE))
                opened = key.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], PURPOSE)
            except (InvalidTag, ValueError):  # ValueError: there is not even a nonce
                continue
            session = msgspec.json.decode(opened, type=LoginSession)
            return session if session.expires_at > now else None
        return None

    def derive_action(self, reader: str, now: datetime) -> str:
        """Return what the page of a reader without such a session sends with each action."""
        return _derive(self._shared_secret(now), ACTION_PURPOSE + reader.encode()).hex()

    def _shared_secret(self, now: datetime) -> bytes:
        """Return the newest secret that every replica has."""
        return self._secrets[0 if now - self._since >= SPREAD else -1]


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def write_cookies(sealed: str, seconds: int) -> list[str]:
    """Return the values of ``Set-Cookie``; an empty seal removes the cookies."""
    parts = [sealed[i : i + PART_LENGTH] for i in range(0, len(sealed), PART_LENGTH)]
    parts += [""] * (len(NAMES) - len(parts))
    return [
        f"{name}={part}; Max-Age={seconds if part else 0}; "
        "Path=/; HttpOnly; Secure; SameSite=Strict"
        for name, part in zip(NAMES, parts, strict=True)
    ]


def read_cookies(cookies: Mapping[str, str]) -> str:
    """Return the sealed session of a request; empty if there is none."""
    return "".join(cookies.get(name, "") for name in NAMES)
