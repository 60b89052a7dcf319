"""Headers with bytes that are no text."""

import asyncio

import pytest

from multiqueue.embedded.server.auth import ApiUser
from multiqueue.embedded.server.server import ApiServer, ServerOptions

TOKEN = "t" * 8


async def status_of(*headers: bytes) -> bytes:
    """The status code of a request with these headers."""
    options = ServerOptions(tls=False, tokens={TOKEN: ApiUser("jane")})
    async with ApiServer(options) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = [b"GET /api/v1/secrets HTTP/1.1", b"Host: a", b"Connection: close", *headers]
        writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer.split(b" ")[1]


@pytest.mark.parametrize("token", [b"\xff" * 8, b"\xff", b"a.b.\xff"])
async def test_a_token_that_is_no_text_is_a_wrong_one(token: bytes) -> None:
    assert await status_of(b"Authorization: Bearer " + token) == b"401"


@pytest.mark.parametrize(
    "header",
    [
        [b"Impersonate-User: \xff"],
        [b"Impersonate-User: a", b"Impersonate-Group: b", b"Impersonate-Group: \xff"],
    ],
    ids=["user", "group"],
)
async def test_nobody_is_acted_as_whose_name_is_no_text(header: list[bytes]) -> None:
    assert await status_of(b"Authorization: Bearer " + TOKEN.encode(), *header) == b"400"


@pytest.mark.parametrize("header", [b"Impersonate-Uid: 7", b"Impersonate-Extra-Scopes: a"])
async def test_nobody_is_acted_as_but_by_name_and_groups(header: bytes) -> None:
    """Jane may act as nobody: 403 would mean that the header was passed over."""
    user = b"Impersonate-User: a"
    assert await status_of(b"Authorization: Bearer " + TOKEN.encode(), user, header) == b"400"
