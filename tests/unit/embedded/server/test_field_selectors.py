"""The text of field selectors."""

import pytest

from multiqueue.embedded.server.field_selectors import parse_field_selector
from multiqueue.embedded.server.status import StatusError


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", ()),
        ("a=b", (("a", "b", True),)),
        ("a==b", (("a", "b", True),)),
        ("a!=b", (("a", "b", False),)),
        ("a=", (("a", "", True),)),
        ("a=b,c!=d", (("a", "b", True), ("c", "d", False))),
        (r"a=b\,c", (("a", "b,c", True),)),
        (r"a=b\=c", (("a", "b=c", True),)),
    ],
)
def test_texts(text: str, want: tuple) -> None:
    assert parse_field_selector(text).terms == want


def test_a_term_needs_an_operator() -> None:
    with pytest.raises(StatusError, match="can't understand 'a'"):
        parse_field_selector("a")
