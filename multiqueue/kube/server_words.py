"""Cleans texts of servers: printable, without our credentials, and not too long.

A worker's API server belongs to somebody else. Its answers end up in conditions, Events, logs and
terminals that others read. So `clean_words` cleans its texts where they enter the program, and
removes the credentials that the server was sent.
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
"""Shorter passwords are not redacted: they occur in ordinary words."""
PIECE = 16
"""Pieces of a credential of this length are redacted too: servers cut the text that they echo."""
SCANNED = 64 * 1024
"""Characters that are cleaned; the rest is never shown."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
"""Whole terminal escapes: colours, cursor movements, and strings such as window titles."""
_RUN = re.compile(rf"[A-Za-z0-9+/=_.~%-]{{{PIECE},}}")
"""The characters of tokens and keys."""


def clean_words(text: str, secrets: Iterable[str] = (), *, limit: int = MAX_WORDS) -> str:
    """Return a server's text as one printable line without credentials.

    Args:
        text: The server's text.
        secrets: The secrets that the server was sent; see `list_secrets`.
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
    """Return at most this many characters of a text; the last one marks a cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def list_secrets(
    authorization: str | None, key: bytes | None, proxy: str | None
) -> tuple[str, ...]:
    """Return the secret parts of credentials.

    Args:
        authorization: The value of the Authorization header.
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
    """Yield the forms in which a secret may be written."""
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
    """Remove the pieces of credentials from a run of characters, wherever they begin."""
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
