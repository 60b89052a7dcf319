"""How long parsers are tried: shortly and always alike in `make test`, long behind `fuzz`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
SHORT = settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=_SLOW)
LONG = settings(max_examples=50_000, derandomize=False, deadline=None, suppress_health_check=_SLOW)
