"""URLs: ``url("https://example.com:80/a?b=c")`` and its parts."""

import re
from urllib.parse import parse_qs, quote, unquote, urlsplit

from multiqueue.lib.cel.functions.function import Opaque, method, plain

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:]*)(:[0-9]*)?")
_PATH_SAFE = "/$&+,;=:@!'()*~._-"


def _read(text: str) -> str:
    """An absolute URI or an absolute path, as in the first line of a request."""
    why = f"URL parse error during conversion from string: parse {text!r}: invalid URI for request"
    if re.search(r"[\x00-\x20\x7f]", text) or re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ValueError(why)
    if not text.startswith("/") and not _SCHEME.match(text):
        raise ValueError(why)
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ValueError(f"{why}: {error}") from error
    if parts.scheme and not text.partition(":")[2].startswith("/"):
        raise ValueError(why)
    if not _HOST.fullmatch(parts.netloc.rpartition("@")[2]):
        raise ValueError(why)
    return text


def is_url(text: str) -> bool:
    """Whether a text is an absolute URI or an absolute path."""
    try:
        _read(text)
    except ValueError:
        return False
    return True


def _host(text: str) -> str:
    return urlsplit(text).netloc.rpartition("@")[2]


def _host_name(text: str) -> str:
    found = _HOST.fullmatch(_host(text))
    return "" if found is None else found[1].strip("[]")


def _port(text: str) -> str:
    found = _HOST.fullmatch(_host(text))
    return "" if found is None else (found[2] or "").removeprefix(":")


def _escaped_path(text: str) -> str:
    path = urlsplit(text).path
    return path if "%" in path else quote(unquote(path), safe=_PATH_SAFE)


def _query(text: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(text).query, keep_blank_values=True)


URL = Opaque(name="kubernetes.URL", read=str)

URLS = (
    plain("url", "string_to_url", ("string",), URL, _read),
    plain("isURL", "is_url_string", ("string",), "bool", is_url),
    method("getScheme", "url_get_scheme", (URL,), "string", lambda text: urlsplit(text).scheme),
    method("getHost", "url_get_host", (URL,), "string", _host),
    method("getHostname", "url_get_hostname", (URL,), "string", _host_name),
    method("getPort", "url_get_port", (URL,), "string", _port),
    method("getEscapedPath", "url_get_escaped_path", (URL,), "string", _escaped_path),
    method("getQuery", "url_get_query", (URL,), "map<string, list<string>>", _query),
)
