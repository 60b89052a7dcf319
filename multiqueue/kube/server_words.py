"""What a server says, made fit to be shown: printed, without our credentials, and not too long.

A worker's API server belongs to somebody else. What it answers ends up in conditions, Events, logs
and terminals that others read. So its words are cleaned where they enter the program: by
`clean_words`, with the credentials that the server was sent.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

REDACTED = "[redacted]"
MAX_WORDS = 2000
"""Characters kept of a message: more than any message of Kubernetes that people read."""
LEAST_SECRET = 4
"""Shorter passwords are left alone: they stand in every second word."""
PIECE = 16
"""This many characters of a credential in a row are redacted, too: servers cut what they echo."""
SCANNED = 64 * 1024
"""Characters that are looked at; what comes after them is never shown."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
"""Terminal escapes whole: colours, cursor movements, and strings such as window titles."""
_RUN = re.compile(rf"[A-Za-z0-9+/=_.~%-]{{{PIECE},}}")
"""What tokens and keys are written with."""


def clean_words(text: str, secrets: Iterable[str] = (), *, limit: int = MAX_WORDS) -> str:
    """Return a server's text as one printable line without credentials.

    Args:
        text: What it said.
        secrets: What it was sent and nobody else may see; see `list_secrets`.
        limit: Characters to keep.
    """
    whole = len(text) <= SCANNED
    line = to_line(text[:SCANNED])
    forms = tuple(dict.fromkeys(form for secret in secrets for form in _forms(secret)))
    if forms:
        line = _redact(line, forms)
        if not whole and not line.endswith(REDACTED):
            # A credential that was cut off within its first characters is not recognized.
            line = line[:-PIECE]
    return cut(line, limit)


def to_line(text: str) -> str:
    """Return a text as one line of printable characters."""
    text = _ESCAPES.sub("", text)
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(text.split())


def cut(text: str, limit: int) -> str:
    """Return at most so many characters of a text, the last of which says that there were more."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def list_secrets(
    authorization: str | None, key: bytes | None, proxy: str | None
) -> tuple[str, ...]:
    """Return what of credentials nobody may see.

    Args:
        authorization: The header's value.
        key: The client's private key, as PEM.
        proxy: The proxy's URL, which may have a password.
    """
    secrets = []
    if authorization:
        scheme, _, value = authorization.partition(" ")
        secrets.append(value or scheme)
        if scheme.lower() == "basic":
            secrets.append(_password_of(value))
    if proxy and "@" in proxy:
        user = proxy.rpartition("@")[0].partition("://")[2]
        secrets += (user, user.partition(":")[2])
    if key:
        lines = key.decode("ascii", "replace").splitlines()
        secrets.append("".join(line for line in lines if not line.startswith("-----")))
        secrets.append(base64.b64encode(key).decode())
    return tuple(secret for secret in secrets if len(secret) >= LEAST_SECRET)


def _password_of(value: str) -> str:
    try:
        return base64.b64decode(value).decode("utf-8", "replace").partition(":")[2]
    except ValueError:
        return ""


def _forms(secret: str) -> Iterator[str]:
    """Yield the ways in which a secret is written."""
    yield secret
    yield base64.b64encode(secret.encode()).decode().rstrip("=")
    yield quote(secret, safe="")


def _redact(line: str, forms: tuple[str, ...]) -> str:
    for form in forms:
        line = line.replace(form, REDACTED)
    if not _RUN.search(line):
        return line
    pieces = {form[at : at + PIECE] for form in forms for at in range(len(form) - PIECE + 1)}
    return _RUN.sub(lambda run: _redact_run(run[0], pieces), line)


def _redact_run(run: str, pieces: set[str]) -> str:
    """Take out of a run of characters what is a piece of a credential, however it begins."""
    shown: list[str] = []
    at = hidden_until = 0
    while at < len(run):
        if run[at : at + PIECE] in pieces:
            if at >= hidden_until:
                shown.append(REDACTED)
            hidden_until = at + PIECE
        if at >= hidden_until:
            shown.append(run[at])
        at += 1
    return "".join(shown)
