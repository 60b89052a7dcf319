"""The dashboard of the demo, as somebody sees it who opens it."""

from __future__ import annotations

import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Demo, Look, cancel_own_job, open_look, submit_own_job

pytestmark = pytest.mark.browser

PAGES = {
    "#/fleet": "Lately",
    "#/quota": "Cohort gpu-pool",
    "#/queues": "Queues",
    "#/queues/research": "Who waits, in order",
    "#/jobs": "Jobs",
    "#/clusters": "worker-a100",
    "#/clusters/worker-h100": "Runs here",
    "#/fairness": "Fairness",
    "#/usage": "Usage",
    "#/changes": "Changes",
}


def test_the_fleet_names_teams_workers_and_who_lends_to_whom(look: Look) -> None:
    page = look.page
    for name in ("inference", "research", "training", "worker-a100", "worker-h100"):
        page.locator("svg text", has_text=name).first.wait_for()
    page.get_by_text("GPUs in use").first.wait_for()
    page.locator(".square.runs").first.wait_for()
    words = page.locator(".picture svg").first.get_attribute("aria-label")
    assert re.search(r"research uses \d+ of 4 GPUs", words)
    assert "live" in page.locator(".light").inner_text()
    assert "key=" not in page.url
    look.picture("fleet")


def test_a_change_is_seen_without_a_reload(look: Look) -> None:
    lately = look.page.locator(".lately")
    lately.locator("li").first.wait_for()
    before = lately.inner_text()
    look.page.wait_for_function(
        "(before) => document.querySelector('.lately').innerText !== before", arg=before
    )


@pytest.mark.parametrize("where", list(PAGES))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_accessible(look: Look, where: str, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    look.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    look.open(where, PAGES[where])
    look.page.locator("h1").first.wait_for(state="attached")
    look.picture(f"{where.strip('#/').replace('/', '-')}-{scheme}")
    found = Axe().run(look.page).response["violations"]
    told = [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]
    assert told == []
    assert look.page.locator("h1").count() == 1


def test_a_job_has_its_way_its_decision_and_its_log(look: Look) -> None:
    look.open("#/jobs?phase=Running", "Jobs")
    # The job may have ended by now; its page stays.
    look.page.locator(".grid tbody a").first.wait_for()
    href = look.page.evaluate("() => document.querySelector('.grid tbody a').getAttribute('href')")
    look.open(href, "Way")
    look.page.get_by_text("Who decided: score").wait_for()
    look.page.get_by_text("Conditions").first.wait_for()
    look.picture("job")
    # If it ends meanwhile, the page asks once more for the pods of a copy that is gone.
    look.complaints[:] = [each for each in look.complaints if not re.search("404|409", each)]


def test_what_has_not_come_yet_is_not_called_nothing(browser: Any, demo: Demo) -> None:
    looks = open_look(browser, "about:blank")
    look = next(looks)
    look.page.route("**/feeds*", lambda route: None)  # it never answers
    look.page.goto(demo.address)
    look.page.get_by_text("Needs somebody").wait_for()
    text = look.page.locator("main").inner_text()
    assert [words for words in ("Nothing.", "nobody waits", "no jobs") if words in text] == []
    assert look.page.locator("main .loading").count() >= 3
    look.page.unroute_all(behavior="ignoreErrors")
    with suppress(StopIteration):
        next(looks)


@pytest.fixture
def too_large(demo: Demo, tmp_path: Path) -> Iterator[None]:
    """Two jobs that wait for ever: no worker has a node with 100 GPUs."""
    names = ("too-large-1", "too-large-2")
    for name in names:
        submit_own_job(demo, tmp_path, name, gpus=100)
    yield
    for name in names:
        cancel_own_job(demo, name)


@pytest.mark.usefixtures("too_large")
def test_a_waiting_job_says_why_in_a_panel_and_keys_walk_through_the_list(look: Look) -> None:
    look.open("#/jobs?phase=Queued&q=too-large", "Jobs")
    look.page.wait_for_function("() => document.querySelectorAll('.grid tbody tr').length > 1")
    look.page.keyboard.press("j")
    look.page.locator("aside").get_by_text("Why it waits").wait_for()
    first = look.page.url
    look.page.keyboard.press("j")
    look.page.wait_for_function("(first) => location.href !== first", arg=first)
    look.picture("panel")
    look.page.keyboard.press("Escape")
    look.page.locator("aside").wait_for(state="detached")


def test_search_and_keys_lead_to_pages(look: Look) -> None:
    page = look.page
    page.locator(".lately li").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("worker-h")
    page.locator(".results a").first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Cluster worker-h100").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.get_by_role("heading", name="Queues").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


def test_the_picture_has_a_table(look: Look) -> None:
    look.page.locator("svg text", has_text="research").first.wait_for()
    look.page.keyboard.press("t")
    look.page.get_by_role("table", name="Who lends to whom").wait_for()
    look.page.get_by_role("table", name="Clusters").get_by_text("worker-a100").wait_for()


def test_a_phone_shows_it_without_sideways_scrolling(look: Look) -> None:
    look.page.set_viewport_size({"width": 360, "height": 740})
    for where in ("#/fleet", "#/jobs", "#/clusters/worker-a100"):
        look.open(where, PAGES.get(where, "GPUs in use"))
        look.page.wait_for_timeout(300)
        width = look.page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= 360, where
        look.picture(f"phone-{where.strip('#/').replace('/', '-')}")


def test_names_of_the_cluster_are_text(browser: Any, demo: Demo) -> None:
    for look in open_look(browser, demo.address):
        look.page.route(
            "**/about.json",
            lambda route: route.fulfill(json={"namespace": "<img src=x>", "context": ""}),
        )
        look.page.evaluate(
            "() => { location.hash = '#/queues/%3Cimg%20src%3Dx%20onerror%3D1%3E'; }"
        )
        look.page.get_by_role("heading", name="Queue <img src=x onerror=1>").wait_for()
        assert look.page.locator("main img").count() == 0


def test_an_address_that_is_wrongly_encoded_opens(browser: Any, demo: Demo) -> None:
    for look in open_look(browser, demo.address):
        look.page.evaluate(
            "() => { location.hash = '#/queues/100%25%E0%A4%A'; location.reload(); }"
        )
        look.page.get_by_role("heading", name="Queue").first.wait_for()


def test_an_address_that_changes_before_the_first_picture_is_followed(
    browser: Any, demo: Demo
) -> None:
    for look in open_look(browser, "about:blank"):
        look.page.add_init_script(
            "addEventListener('DOMContentLoaded', () => { location.hash = '#/clusters'; })"
        )
        look.page.goto(demo.address)
        look.page.get_by_role("heading", name="Clusters").wait_for()


def test_characters_that_turn_text_around_are_shown(look: Look) -> None:
    """Control and bidirectional characters, and separators of lines and paragraphs."""
    turned = "".join(map(chr, (0x07, 0x61C, 0x200F, 0x2028, 0x2029, 0x202E, 0x2066)))
    look.page.evaluate(
        "(name) => { location.hash = '#/queues/' + encodeURIComponent(name); }", f"a{turned}b"
    )
    look.page.get_by_role("heading", name=f"Queue a{'␣' * len(turned)}b").wait_for()


def test_without_the_key_nothing_is_shown(demo: Demo) -> None:
    base = demo.address.partition("?")[0]
    for path in ("", "about.json", "apis/fleet.multiqueue.dev/v1alpha1/totals"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(base + path, timeout=10)
        assert refused.value.code == 403
        refused.value.close()


@pytest.fixture
def refusing(browser: Any, demo: Demo) -> Iterator[Look]:
    """A reader whose rights end at the feed."""
    for look in open_look(browser, demo.address):
        look.page.route(
            re.compile("feeds"),
            lambda route: route.fulfill(status=403, json={"code": 403, "message": "no right"}),
        )
        yield look
        look.complaints.clear()  # the browser reports each 403


def test_a_missing_right_is_named(refusing: Look) -> None:
    refusing.page.reload()
    refusing.page.get_by_text("no right", exact=False).first.wait_for()


def test_a_lost_connection_is_said_and_healed(look: Look) -> None:
    page = look.page
    page.locator(".light.good").wait_for()
    page.route(re.compile("feeds"), lambda route: route.abort())
    page.reload()
    page.get_by_text("reconnecting").wait_for()
    page.unroute(re.compile("feeds"))
    page.locator(".light.good").wait_for()
    look.complaints.clear()  # the browser reports each attempt


def still_text(page: Any, selector: str) -> str:
    """Return a text once it stands still: what was sent before a stop may arrive after it."""
    text = page.locator(selector).inner_text()
    for _ in range(3):  # a manager that stands still for 7 s loses its Lease, and ends
        page.wait_for_timeout(1500)
        if text == (text := page.locator(selector).inner_text()):
            return str(text)
    raise AssertionError(f"{selector} goes on changing: {text}")


def test_a_manager_that_stands_still_and_goes_on_is_shown_again(look: Look, demo: Demo) -> None:
    look.page.locator(".lately li").first.wait_for()
    os.kill(demo.manager_pid, signal.SIGSTOP)
    try:
        before = still_text(look.page, ".lately")
    finally:
        os.kill(demo.manager_pid, signal.SIGCONT)
    look.page.wait_for_function(
        "(before) => document.querySelector('.lately').innerText !== before", arg=before
    )
