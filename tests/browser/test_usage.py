"""The page Usage, as somebody sees it who opens it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.conftest import Look

pytestmark = pytest.mark.browser

USAGE = re.compile(r"/usage\.json")


def make_month(**changes: Any) -> dict[str, Any]:
    """A month of six teams, as the gateway describes it."""
    teams = ("inference", "research", "training", "vision", "speech", "robotics")
    figures = {"holds": 4, "reserved_s": 72_000, "checks_s": 0, "starting_s": 2_000}
    figures |= {"running_s": 70_000, "kept_s": 50_000, "lost_s": 9_000, "failed_s": 1_000}
    days = [f"2026-11-{day:02d}" for day in range(1, 24)]
    row = {"resource": "nvidia.com/gpu", **figures}
    summed = {name: value * len(days) for name, value in figures.items()}
    return {
        "month": "2026-11",
        "months": ["2026-11", "2026-10"],
        "from": "2026-11-01T00:00:00Z",
        "to": "2026-11-23T08:00:00Z",
        "days": 30,
        "through": "2026-11-23T07:55:00Z",
        "gapSeconds": 1200,
        "namespace": "",
        "column": "owner",
        "resource": "nvidia.com/gpu",
        "resources": ["nvidia.com/gpu", "cpu"],
        "total": {name: value * len(teams) for name, value in summed.items()},
        "rows": [{"owner": team, "resource": "nvidia.com/gpu", **summed} for team in teams],
        "more": None,
        "byDay": [{"day": day, "owner": team, **row} for day in days for team in teams],
        **changes,
    }


def answer(look: Look, status: int = 200, **document: Any) -> None:
    look.page.route(USAGE, lambda route: route.fulfill(status=status, json=document))


def wait_for_usage(look: Look) -> None:
    """Wait until some job of the demo has held quota."""
    look.page.wait_for_function(
        "async () => (await (await fetch('/usage.json')).json()).rows.length > 0", polling=500
    )


def test_the_demo_has_usage_and_its_csv_has_seconds(look: Look) -> None:
    page = look.page
    wait_for_usage(look)
    page.get_by_role("link", name="Usage").click()
    table = page.get_by_role("table", name="Usage")
    table.get_by_text("%").first.wait_for()
    page.get_by_role("combobox", name="By", exact=True).select_option("queue")
    table.get_by_role("columnheader", name="Queue").wait_for()
    assert "by=queue" in page.url
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert re.fullmatch(r"usage-\d{4}-\d\d-by-queue\.csv", download.value.suggested_filename)
    text = download.value.path().read_text()
    assert text.startswith("from,to,cluster_queue,resource,holds,reserved_s,")
    assert re.search(r"^\S+Z,\S+Z,[a-z]+,nvidia\.com/gpu,\d+,\d+,", text, re.MULTILINE)
    look.picture("usage-demo")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_month_is_drawn_and_accessible(look: Look, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    look.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    more = {"rows": 312, "reserved_s": 36_000}
    answer(look, **make_month(more=more))
    look.open("#/usage", "GPU hours by day")
    look.page.get_by_text("and 312 more with 10 GPU hours; the CSV has all").wait_for()
    figures = look.page.locator(".figure .value").all_inner_texts()
    assert figures == ["2,760", "2,683", "345", "38.3"]
    assert look.page.locator(".days .held").count() == 23 * 6
    assert look.page.locator(".days .lost").count() == 23
    words = look.page.locator(".days").get_attribute("aria-label")
    assert "23: 120 reserved, 15 lost" in words
    look.page.get_by_text("No manager counted for 20 minutes").wait_for()
    look.picture(f"usage-month-{scheme}")
    found = Axe().run(look.page).response["violations"]
    assert [f"{each['id']}: {each['nodes'][0]['html']}" for each in found] == []


def test_a_month_without_usage_is_empty(look: Look) -> None:
    look.open("#/usage?month=2020-01", "Nothing was reserved in January 2020")
    assert look.page.get_by_role("link", name="CSV").count() == 0
    look.picture("usage-empty")


def test_usage_that_is_asked_for_has_a_shape(look: Look) -> None:
    held: list[Any] = []
    look.page.route(USAGE, lambda route: held.append(route))  # noqa: PLW0108 - playwright marks it
    with look.page.expect_request(USAGE):
        look.page.evaluate("() => { location.hash = '#/usage'; }")
    look.page.locator(".loading").wait_for()
    held[-1].fulfill(json=make_month())
    look.page.get_by_text("GPU hours by day").wait_for()


def test_an_error_is_told_and_asked_again(look: Look) -> None:
    wait_for_usage(look)
    answer(look, 502, message="the API server does not answer: connection refused")
    look.open("#/usage", "connection refused")
    look.page.unroute(USAGE)
    look.page.get_by_role("button", name="Try again").click()
    look.page.get_by_role("table", name="Usage").wait_for()
    look.open("#/usage?month=tomorrow", 'month: "tomorrow" is no month')
    look.complaints.clear()  # the browser reports each answer that is an error


def test_missing_rights_are_named(look: Look) -> None:
    answer(look, 403, message="usagereports.multiqueue.dev is forbidden: cannot list")
    look.open("#/usage", "usagereports.multiqueue.dev is forbidden")
    look.picture("usage-forbidden")
    look.page.unroute(USAGE)
    answer(look, **make_month(namespace="team-a"))
    look.page.get_by_role("button", name="Try again").click()
    look.page.get_by_text("You may read namespace team-a only").wait_for()
    look.complaints.clear()  # the browser reports each 403


def test_keys_choose_what_is_added_up(look: Look) -> None:
    page = look.page
    wait_for_usage(look)
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.get_by_role("heading", name="Usage").wait_for()
    page.get_by_role("table", name="Usage").wait_for()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.parentElement.textContent.startsWith('By')"):
            break
    page.keyboard.press("ArrowDown")
    page.get_by_role("columnheader", name="Namespace").wait_for()
    assert "by=namespace" in page.url


def test_a_phone_shows_usage_without_sideways_scrolling(look: Look) -> None:
    look.page.set_viewport_size({"width": 360, "height": 740})
    answer(look, **make_month())
    look.open("#/usage", "GPU hours by day")
    assert look.page.evaluate("() => document.documentElement.scrollWidth") <= 360
    look.picture("phone-usage")


def test_names_in_usage_are_text(look: Look) -> None:
    month = make_month()
    for row in (*month["rows"], *month["byDay"]):
        row["owner"] = row["owner"].replace("vision", "<img src=x onerror=1>")
    answer(look, **month)
    look.open("#/usage", "GPU hours by day")
    look.page.get_by_role("table", name="Usage").get_by_text("<img src=x onerror=1>").wait_for()
    assert look.page.locator("main img").count() == 0
