"""Who may use the listener on this machine: it adds credentials, so it must know its reader.

The address that is printed has a key. The first request exchanges it for a cookie, and the page is
loaded again without the key, so that it stays in no history. Everything without the cookie is
refused, and so is whatever another web site makes a browser send.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

KEY_BYTES = 16
ACTION_HEADER = "X-Multiqueue-Action"
"""A form or an image of another web site cannot set a header, and does not know its value."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused with 403, in words for the person at the browser."""

    text: str


class Door:
    """Checks requests.

    Args:
        port: The port of the listener: cookies are shared by all ports of a host.

    Attributes:
        key: What the printed address has.
        action: What the page, and nobody else, sends with each action.
    """

    def __init__(self, port: int) -> None:
        self.key = secrets.token_urlsafe(KEY_BYTES)
        self._pass = secrets.token_urlsafe(KEY_BYTES)
        self.action = secrets.token_urlsafe(KEY_BYTES)
        self._cookie = f"multiqueue-{port}"
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    @property
    def cookie(self) -> str:
        """The value of ``Set-Cookie`` for a reader that had the key."""
        return f"{self._cookie}={self._pass}; Path=/; HttpOnly; SameSite=Strict"

    def has_key(self, key: str | None) -> bool:
        """Whether this is the key of the printed address."""
        return key is not None and _is_same(key, self.key)

    def check(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Refusal | None:
        """Return why a request is refused; None if it may pass."""
        return self.check_origin(headers) or self._check_cookie(cookies)

    def check_origin(self, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request comes from elsewhere; None if this page or its reader sent it."""
        if headers.get("Host", "") not in self._hosts:
            return Refusal("this address is for 127.0.0.1 and localhost only")
        origin = headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return Refusal("requests of other web sites are refused")
        if headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
            return Refusal("links from other web sites are refused; open the printed address")
        return None

    def check_sent(self, headers: Mapping[str, str], content_type: str) -> Refusal | None:
        """Return why a body is refused: a form of another web site cannot send one like this."""
        if headers.get("Origin") is None or content_type != "application/json":
            return Refusal("questions and actions are sent by this page only, as JSON")
        return None

    def check_action(self, headers: Mapping[str, str]) -> Refusal | None:
        """Return why an action is refused. Parity: S-38."""
        if _is_same(headers.get(ACTION_HEADER, ""), self.action):
            return None
        return Refusal(f"actions need the header {ACTION_HEADER} with the value that the page has")

    def _check_cookie(self, cookies: Mapping[str, str]) -> Refusal | None:
        given = cookies.get(self._cookie, "")
        if _is_same(given, self._pass):
            return None
        return Refusal("open the address that `multiqueue dashboard` printed: it has the key")


def _is_same(given: str, wanted: str) -> bool:
    """Compare in constant time; a header may hold bytes that are no UTF-8."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), wanted.encode())
