"""Addresses in configurations: ``:8443``, ``127.0.0.1:0``, ``[::]:8081``, ``0`` for off."""

from __future__ import annotations

from multiqueue.lib.digits import is_number


def parse_bind_address(text: str) -> tuple[str, int] | None:
    """Return host ("" for any) and port; None if the server is turned off (empty or ``0``).

    Raises:
        ValueError: the text is no address.
    """
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not is_number(port) or int(port) > 65535:
        raise ValueError(
            f'"{text}" is no address; write host:port, such as ":8443", or "0" for none'
        )
    return host.strip("[]"), int(port)
