"""docs/reference says what the code says, and everything in it is described."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tools.reference import dispatchers
from tools.reference.markdown import Reference
from tools.reference.pages import BUILDERS, FOLDER


def module_of(build: Callable[[], Reference]) -> str:
    return build.__module__.rpartition(".")[2]


@pytest.mark.parametrize("build", BUILDERS, ids=module_of)
def test_a_page_is_that_of_the_code(build: Callable[[], Reference]) -> None:
    want = build()
    assert want.undescribed == (), "describe these where they are declared"
    assert (FOLDER / want.name).read_text() == want.text, "run `make reference`"


def test_no_page_is_left_of_what_is_gone() -> None:
    pages = {build().name for build in BUILDERS}
    assert {path.name for path in FOLDER.glob("*.md")} == pages


def test_the_page_for_authors_of_dispatchers_has_every_class_that_they_may_import() -> None:
    assert dispatchers.undocumented() == set()
