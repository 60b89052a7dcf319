"""The parts that self-contained pages share: head, style, legend and sections. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

COLOURS = 9


def build_html(title: str, parts: Sequence[str]) -> str:
    """Return a page that needs nothing beside itself."""
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style></head>\n"
        f"<body><main>\n{chr(10).join(parts)}\n</main></body></html>\n"
    )


def head(title: str, words: str, labels: Sequence[str]) -> str:
    """Return the title, a line about what was played, and the colour of each label."""
    items = "".join(
        f'<li class="c{place % COLOURS}">{escape(label)}</li>' for place, label in enumerate(labels)
    )
    return f'<h1>{escape(title)}</h1><p>{escape(words)}</p><ul class="legend">{items}</ul>'


def section(title: str, words: str, content: str) -> str:
    """Return a part of the page with its own heading; `content` is HTML."""
    return f"<section><h2>{escape(title)}</h2><p>{escape(words)}</p>{content}</section>"


def tile(title: str, value: str, words: str) -> str:
    """Return a small part with one figure; `value` is HTML."""
    return (
        f'<section class="tile"><span>{escape(title)}</span>'
        f"<b>{value}</b><span>{escape(words)}</span></section>"
    )
