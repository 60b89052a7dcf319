import pytest

from multiqueue.lib.amount import LARGEST, UNLIMITED
from multiqueue.model.resources import format_amount, parse_quota, parse_request


@pytest.mark.parametrize(
    ("resource", "raw", "want"),
    [
        pytest.param("cpu", "1500m", 1500, id="cpu counts in milli"),
        pytest.param("cpu", "0.0001", 1, id="cpu rounds up"),
        pytest.param("memory", "1Gi", 2**30, id="memory counts in bytes"),
        pytest.param("nvidia.com/gpu", "8", 8, id="extended resources count in pieces"),
        pytest.param("nvidia.com/gpu", "500m", 1, id="pieces round up"),
    ],
)
def test_quantities_become_integers(resource: str, raw: str, want: int) -> None:
    """E-1."""
    assert parse_request(resource, raw) == parse_quota(resource, raw) == want


def test_a_quota_that_overflows_is_unlimited_and_a_request_stays_bounded() -> None:
    """E-1."""
    assert parse_quota("cpu", "1e18") == UNLIMITED
    assert parse_request("cpu", "1e18") == LARGEST


@pytest.mark.parametrize(
    ("resource", "amount", "want"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("memory", 3 * 2**30, "3Gi"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("memory", 100, "100"),
        ("nvidia.com/gpu", 16, "16"),
        ("pods", 0, "0"),
    ],
)
def test_amounts_are_written_as_kubernetes_would(resource: str, amount: int, want: str) -> None:
    assert format_amount(resource, amount) == want
