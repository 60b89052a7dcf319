"""Axes, lines, areas and bars as inline SVG, coloured by the page's style. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The position of a plot on its canvas, in pixels before scaling.

    Attributes:
        width: Width of the canvas.
        height: Height of the canvas.
        left: Room for labels on the left.
        bottom: Room for labels at the bottom.
        top: Room above the plot.
        right: Room on the right of the plot.
    """

    width: int = 640
    height: int = 300
    left: int = 52
    bottom: int = 40
    top: int = 12
    right: int = 14

    @property
    def right_edge(self) -> int:
        """The right end of the plot."""
        return self.width - self.right

    @property
    def base(self) -> int:
        """The lower end of the plot."""
        return self.height - self.bottom

    def x_scale(self, low: float, high: float) -> Scale:
        """Return the function from values to horizontal positions."""
        span = (high - low) or 1.0
        return lambda value: self.left + (value - low) / span * (self.right_edge - self.left)

    def y_scale(self, low: float, high: float) -> Scale:
        """Return the function from values to vertical positions; larger values are higher."""
        span = (high - low) or 1.0
        return lambda value: self.base - (value - low) / span * (self.base - self.top)


def canvas(frame: Frame, label: str, *parts: str) -> str:
    """Return a plot with a label for screen readers."""
    return (
        f'<svg viewBox="0 0 {frame.width} {frame.height}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{"".join(parts)}</svg>'
    )


def across(frame: Frame, ticks: Sequence[tuple[float, str]], scale: Scale, title: str) -> str:
    """Return the axis at the bottom, with a faint line for each tick."""
    parts = []
    for value, words in ticks:
        x = f"{scale(value):.1f}"
        parts.append(
            f'<line class="grid" x1="{x}" x2="{x}" y1="{frame.top}" y2="{frame.base}"/>'
            f'<text x="{x}" y="{frame.base + 16}" text-anchor="middle">{escape(words)}</text>'
        )
    middle = (frame.left + frame.right_edge) / 2
    parts.append(
        f'<line class="axis" x1="{frame.left}" x2="{frame.right_edge}" '
        f'y1="{frame.base}" y2="{frame.base}"/>'
        f'<text class="title" x="{middle:.0f}" y="{frame.height - 4}" '
        f'text-anchor="middle">{escape(title)}</text>'
    )
    return "".join(parts)


def upright(frame: Frame, ticks: Sequence[tuple[float, str]], scale: Scale) -> str:
    """Return the axis on the left, with a faint line for each tick."""
    return "".join(
        f'<line class="grid" x1="{frame.left}" x2="{frame.right_edge}" '
        f'y1="{scale(value):.1f}" y2="{scale(value):.1f}"/>'
        f'<text x="{frame.left - 8}" y="{scale(value) + 4:.1f}" '
        f'text-anchor="end">{escape(words)}</text>'
        for value, words in ticks
    )


def line(points: Sequence[Point], colour: int, hint: str) -> str:
    """Return a line through the given points."""
    path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<path class="line c{colour}" d="{path}"><title>{escape(hint)}</title></path>'


def area(points: Sequence[Point], base: float, colour: int, hint: str) -> str:
    """Return the filled area between a line and the base."""
    if not points:
        return ""
    path = "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    first, last = points[0][0], points[-1][0]
    return (
        f'<path class="area c{colour}" d="M{first:.1f},{base:.1f}L{path}L{last:.1f},{base:.1f}Z">'
        f"<title>{escape(hint)}</title></path>"
    )


def bar(corner: Point, size: Point, colour: int, hint: str) -> str:
    """Return an upright bar, given its upper left corner and its width and height."""
    (x, y), (width, height) = corner, size
    return (
        f'<rect class="bar c{colour}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{max(height, 0.5):.1f}" rx="2"><title>{escape(hint)}</title></rect>'
    )


def dot(centre: Point, colour: int, hint: str, *, radius: float = 5) -> str:
    """Return a point."""
    x, y = centre
    return (
        f'<circle class="dot c{colour}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}">'
        f"<title>{escape(hint)}</title></circle>"
    )


def level(ends: tuple[float, float], y: float, kind: str, hint: str) -> str:
    """Return a level line between two horizontal positions; `kind` is a class of the style."""
    return (
        f'<line class="{kind}" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y:.1f}" y2="{y:.1f}">'
        f"<title>{escape(hint)}</title></line>"
    )


def text(at: Point, words: str, anchor: str = "middle") -> str:
    """Return a label."""
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def time_ticks(most: float, count: int = 4) -> list[float]:
    """Return round times from 0 to about the largest; in seconds."""
    minutes = (1 / 60, 1 / 12, 1 / 4, 1 / 2, 1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)
    steps = [60.0 * each for each in minutes]
    step = next((each for each in steps if each * count >= most), 0.0)
    if not step:
        return [86_400.0 * each for each in round_ticks(most / 86_400, count)]
    return [step * place for place in range(math.ceil(most / step - 1e-9) + 1)]


def round_ticks(most: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 to about the largest."""
    if most <= 0:
        return [0.0, 1.0]
    raw = most / count
    size = math.pow(10, math.floor(math.log10(raw)))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    return [step * place for place in range(math.ceil(most / step - 1e-9) + 1)]
