"""Names of requests and templates, and what they tell (E-155)."""

from __future__ import annotations

import hashlib

import pytest

from multiqueue.controllers.provisioning.naming import find_attempt, request_name, template_name

LONG = "w" * 240


def test_a_request_is_named_after_workload_check_and_attempt() -> None:
    assert request_name("job-a-1f2e3", "prov", 2) == "job-a-1f2e3-prov-2"


def test_a_template_is_named_after_its_request_and_pod_set() -> None:
    assert template_name("wl-prov-1", "main") == "ppt-wl-prov-1-main"


@pytest.mark.parametrize("length", [246, 247, 248, 400])
def test_a_long_name_is_cut_and_told_apart_by_a_digest(length: int) -> None:
    workload = "w" * (length - len("-prov-1"))
    full = f"{workload}-prov-1"
    digest = hashlib.sha1(full.encode(), usedforsecurity=False).hexdigest()
    want = full if length <= 247 else f"{full[:247]}-{digest[:5]}"
    assert request_name(workload, "prov", 1) == want
    assert len(want) <= 253


def test_attempts_of_a_long_name_differ() -> None:
    assert request_name(LONG, "prov", 11111) != request_name(LONG, "prov", 11112)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("wl-prov-1", 1, id="the first"),
        pytest.param("wl-prov-12", 12, id="more digits"),
        pytest.param("wl-prov-", None, id="no attempt"),
        pytest.param("wl-prov-x1", None, id="no number"),
        pytest.param("wl-prov-1-2", None, id="of the check prov-1"),
        pytest.param("wl-other-1", None, id="of another check"),
        pytest.param("awl-prov-1", None, id="of another workload"),
        pytest.param("wl-prov-\u0661", None, id="digits of another script"),
    ],
)
def test_the_attempt_is_read_from_the_name(name: str, want: int | None) -> None:
    assert find_attempt(name, "wl", "prov", highest=4) == want


def test_the_attempt_of_a_name_that_was_cut_is_found_again() -> None:
    name = request_name(LONG, "provisioning", 3)
    assert find_attempt(name, LONG, "provisioning", highest=3) == 3
    assert find_attempt(name, LONG, "provisioning", highest=2) is None
    assert find_attempt(name, LONG, "provisionings", highest=4) is None
