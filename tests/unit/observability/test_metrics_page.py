"""docs/metrics.md says what the table of metrics says."""

from tools.generate_metrics_page import PAGE, render


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text() == render(), "run `make metrics`"
