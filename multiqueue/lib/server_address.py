"""Reads untrusted addresses of servers: `https://host:port/path`, and nothing else.

It is stricter than the URL standard: every library that we use accepts these addresses and reads
them in the same way. No message repeats a value, because people write passwords into URLs.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass

PORTS = {"https": 443, "http": 80}
PROXY_SCHEMES = ("http", "https")
"""Schemes of proxies; the requests through them use https in any case."""
MAX_LENGTH = 2048
_MAX_HOST = 253
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_HOST_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_URL = re.compile(
    r"(?P<user>[^/?#@]*@)?"
    r"(?P<host>\[[^\]/?#]*\]|[^\[\]/?#:]*)"
    r"(?::(?P<port>[^/?#]*))?"
    r"(?P<path>(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?)"
)


class AddressError(ValueError):
    """A text that is not a server's address; the message continues "a server that"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where a server is; equal for all spellings of the same address."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        """The address without its path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def __str__(self) -> str:
        return self.origin + self.path


def parse_server(
    value: object, *, schemes: Collection[str] = ("https",), allow_user: bool = False
) -> ServerAddress:
    """Read the URL of a server.

    Args:
        value: The value that should be a URL.
        schemes: The allowed schemes.
        allow_user: Whether user and password may precede the host; the result omits them.

    Raises:
        AddressError: the value is not a valid address.
    """
    if not isinstance(value, str):
        raise AddressError("is not a string")
    wanted = " or ".join(f"{scheme}://" for scheme in schemes)
    scheme, separator, rest = value[:MAX_LENGTH].partition("://")
    if not separator or scheme.lower() not in schemes:
        raise AddressError(f"does not begin with {wanted}")
    match = _URL.fullmatch(rest) if len(value) < MAX_LENGTH else None
    if match is None:
        raise AddressError("is no URL of the form https://host:port/path")
    if match["user"] and not allow_user:
        raise AddressError("holds a user name; credentials belong into the user's entry")
    return ServerAddress(
        scheme=scheme.lower(),
        host=_parse_host(match["host"].lower()),
        port=_parse_port(match["port"], PORTS[scheme.lower()]),
        path=match["path"].rstrip("/"),
    )


def is_host(host: str) -> bool:
    """Whether a text is an IP address, or a host name in lower case."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        is_name = len(host) <= _MAX_HOST and _HOST_NAME.fullmatch(host) is not None
        return is_name and _is_decodable(host)
    return "%" not in host


def _is_decodable(host: str) -> bool:
    """Whether labels that encode other letters (``xn--…``) can be decoded: clients do so."""
    try:
        host.encode("ascii").decode("idna")
    except UnicodeError:
        return False
    return True


def _parse_host(host: str) -> str:
    bare = host.removeprefix("[").removesuffix("]")
    # Only IPv6 addresses have colons, and they are put into brackets.
    if not is_host(bare) or (":" in bare) != (bare != host):
        raise AddressError("is neither an IP address nor a host name")
    return bare


def _parse_port(text: str | None, default: int) -> int:
    if not text:
        return default
    port = int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 else 0
    if not 0 < port < 65536:
        raise AddressError("has a port that is no number from 1 to 65535")
    return port
