"""Values of metrics, read as a scrape reads them."""

from __future__ import annotations

from prometheus_client.metrics import MetricWrapperBase


def read_value(metric: MetricWrapperBase) -> float:
    """Return the value of a counter or gauge without labels, or of one child."""
    (family,) = metric.collect()
    return family.samples[0].value
