"""Requests to addresses of the configuration. Neither URLs nor secrets are in what is returned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import aiohttp

SECONDS = aiohttp.ClientTimeout(total=5.0)
MAX_TEXT = 4096
"""Characters of a secret."""


async def post(
    session: aiohttp.ClientSession, url: str, body: bytes, headers: Mapping[str, str]
) -> tuple[str, bool]:
    """Send a body once; redirects are not followed.

    Returns:
        What went wrong, empty if nothing did; and whether another attempt may help.
    """
    try:
        async with session.post(
            url, data=body, headers=headers, allow_redirects=False, timeout=SECONDS
        ) as answer:
            status = answer.status
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return type(error).__name__, True
    if 200 <= status < 300:
        return "", False
    return f"status {status}", status == 429 or status >= 500


def read_secret(path: str) -> str:
    """Return the text of a file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no secret; the message does not repeat it.
    """
    try:
        with Path(path).open(encoding="ascii") as file:
            text = file.read(MAX_TEXT + 1).strip()
    except UnicodeDecodeError:
        raise ValueError(
            "it is not ASCII text; write text into it, such as `openssl rand -hex 32` prints"
        ) from None
    if len(text) > MAX_TEXT:
        raise ValueError(f"it is longer than {MAX_TEXT} characters")
    return text
