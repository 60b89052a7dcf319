"""Shows output again and again: redrawn on a terminal, printed when it changed elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
WHOLE_SCREEN, NORMAL_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


def watch_option(function: F) -> F:
    """Add ``-w``; the command gets ``watch``."""
    return click.option(
        "-w", "--watch", is_flag=True, help="Show it live until interrupted with Ctrl-C."
    )(function)


class TerminalText(io.StringIO):
    """Collects what a command prints, as a terminal that takes colours."""

    def isatty(self) -> bool:
        """Whether the collected text goes to a terminal."""
        return sys.__stdout__ is not None and sys.__stdout__.isatty()

    def fileno(self) -> int:
        """Return the terminal's descriptor, which knows its width."""
        assert sys.__stdout__ is not None
        return sys.__stdout__.fileno()


async def show_live(show: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Show until cancelled.

    Args:
        show: Prints once.
        seconds: The pause between two times.
    """
    is_terminal = sys.stdout.isatty()
    before = ""
    if is_terminal:
        sys.stdout.write(WHOLE_SCREEN)
    try:
        while True:
            with contextlib.redirect_stdout(TerminalText()) as text:
                await show()
            shown = text.getvalue()
            if is_terminal:
                draw_over(shown)
            elif shown != before:
                sys.stdout.write(shown)
                sys.stdout.flush()
            before = shown
            await asyncio.sleep(seconds)
    finally:
        if is_terminal:
            sys.stdout.write(NORMAL_SCREEN + before)
            sys.stdout.flush()


@contextlib.contextmanager
def whole_screen() -> Iterator[None]:
    """Use the whole terminal inside of this block, and show afterwards what was there before."""
    sys.stdout.write(WHOLE_SCREEN)
    try:
        yield
    finally:
        sys.stdout.write(NORMAL_SCREEN)
        sys.stdout.flush()


def draw_over(text: str) -> None:
    """Draw over what is there: to clear the screen first would flicker."""
    lines = f"{CLEAR_LINE}\n".join(text.splitlines())
    sys.stdout.write(HOME + lines + CLEAR_LINE + CLEAR_BELOW)
    sys.stdout.flush()
