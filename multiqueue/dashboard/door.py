"""Who may use a listener: it adds credentials, so it must know its reader and its page.

On this machine, the address that is printed has a key. The first request exchanges it for a cookie,
and the page is loaded again without the key, so that it stays in no history. Everything without the
cookie is refused, and so is whatever another web site makes a browser send.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

KEY_BYTES = 16
ACTION_HEADER = "X-Multiqueue-Action"
"""A form or an image of another web site cannot set a header, and does not know its value."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is refused with 403, in words for the person at the browser."""

    text: str


class SameOrigin:
    """Tells requests of our own page from those that another web site makes a browser send.

    Args:
        scheme: ``http`` or ``https``.
        is_ours: Whether a value of ``Host`` is an address of this listener.
        told: What the refusal of a foreign ``Host`` says.
        public: The origin that readers see if a proxy changes the port in ``Host``; may be empty.
    """

    def __init__(
        self, scheme: str, is_ours: Callable[[str], bool], told: str, *, public: str = ""
    ) -> None:
        self._scheme = scheme
        self._is_ours = is_ours
        self._told = told
        self._public = public or None

    def check_host(self, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request means another host: a name may be made to point here."""
        return None if self._is_ours(headers.get("Host", "")) else Refusal(self._told)

    def check_origin(self, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request comes from elsewhere; None if this page or its reader sent it."""
        refusal = self.check_host(headers)
        if refusal is not None:
            return refusal
        origins = {None, f"{self._scheme}://{headers['Host']}", self._public}
        if headers.get("Origin") not in origins:
            return Refusal("requests of other web sites are refused")
        if headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
            return Refusal("links from other web sites are refused; enter the address yourself")
        return None

    def check_sent(self, headers: Mapping[str, str], content_type: str) -> Refusal | None:
        """Return why a body is refused: a form of another web site cannot send one like this."""
        if headers.get("Origin") is None or content_type != "application/json":
            return Refusal("questions and actions are sent by this page only, as JSON")
        return None


def check_action(headers: Mapping[str, str], action: str) -> Refusal | None:
    """Return why an action is refused; ``action`` is what the page has, or empty. Parity: S-38."""
    if not action:
        return Refusal("the dashboard was started with --read-only")
    if _is_same(headers.get(ACTION_HEADER, ""), action):
        return None
    return Refusal(
        f"actions need the header {ACTION_HEADER} with the value that the page has; reload the page"
    )


class Door(SameOrigin):
    """Checks requests on this machine.

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
        hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        told = "this address is for 127.0.0.1 and localhost only"
        super().__init__("http", hosts.__contains__, told)

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

    def _check_cookie(self, cookies: Mapping[str, str]) -> Refusal | None:
        given = cookies.get(self._cookie, "")
        if _is_same(given, self._pass):
            return None
        return Refusal("open the address that `multiqueue dashboard` printed: it has the key")


def _is_same(given: str, wanted: str) -> bool:
    """Compare in constant time; a header may hold bytes that are no UTF-8."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), wanted.encode())
