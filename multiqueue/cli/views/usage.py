"""The table of ``multiqueue usage``. Pure."""

from __future__ import annotations

from multiqueue.views.usage_sums import FIGURES, UsageSums

SHORT_FIGURES = ("reserved", "running", "lost", "failed")
MINUTE, HOUR = 60.0, 3600.0


def list_table(
    sums: UsageSums, *, wide: bool = False
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
        )
        for values, resource, figures in sums
    ]
    return ("RESOURCE", *(name.upper() for name in names), "ENDED"), rows, unit
