"""The table of ``multiqueue usage``. Pure."""

from __future__ import annotations

from multiqueue.views.usage_sums import FIGURES, UsageSums, tell_cost

SHORT_FIGURES = ("reserved", "running", "lost", "failed")
MINUTE, HOUR = 60.0, 3600.0


def list_table(
    sums: UsageSums, *, wide: bool = False, priced: bool = False
) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    """Return the titles after those of ``by``, the rows, and the unit of their times."""
    names = FIGURES if wide else SHORT_FIGURES
    is_short = all(figures.reserved < 10 * HOUR for _, _, figures in sums)
    seconds, unit = (MINUTE, "Minutes") if is_short else (HOUR, "Hours")
    rows = [
        (
            *(value or "-" for value in values),
            resource,
            *(f"{getattr(figures, name) / seconds:.1f}" for name in names),
            str(figures.holds),
            *((_format_cost(tell_cost(resource, figures)),) if priced else ()),
        )
        for values, resource, figures in sums
    ]
    costs = ("COST",) if priced else ()
    return ("RESOURCE", *(name.upper() for name in names), "ENDED", *costs), rows, unit


def describe_cost(sums: UsageSums, currency: str) -> str:
    """Say what all rows cost together, and for how many hours of devices no price is known."""
    total = sum(figures.cost for _, _, figures in sums)
    unpriced = sum(figures.unpriced for _, _, figures in sums) / HOUR
    told = f"COST is the price of what is charged: {total:.2f} {currency}".rstrip() + " in all."
    return told + (f" {unpriced:.1f} device-hours have no price." if unpriced else "")


def _format_cost(cost: float | None) -> str:
    return "-" if cost is None else f"{cost:.2f}"
