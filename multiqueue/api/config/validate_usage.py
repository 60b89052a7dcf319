"""Rules about prices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date

from multiqueue.api.config.checks import unique
from multiqueue.api.config.types import Configuration


def prices(config: Configuration) -> Iterator[str]:
    """Check what devices cost."""
    path, found = "usage.prices", config.usage.prices
    yield from unique(path, (f"{price.flavor} from {price.valid_from}" for price in found))
    for i, price in enumerate(found):
        if not price.flavor:
            yield f"{path}[{i}].flavor: it is empty; name a ResourceFlavor"
        if not _is_day(price.valid_from):
            yield f'{path}[{i}].from: "{price.valid_from}" is no day; write 2026-01-31'
        if not (math.isfinite(price.per_gpu_hour) and price.per_gpu_hour >= 0):
            yield f"{path}[{i}].perGpuHour: {price.per_gpu_hour:g} is no price; use 0 or more"
        if price.currency != found[0].currency:
            yield (
                f'{path}[{i}].currency: "{price.currency}" is not that of {path}[0], '
                f'"{found[0].currency}"; costs are added up, so use one for all'
            )


def _is_day(text: str) -> bool:
    """Whether a text is a day in the one form that sorts by time."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
