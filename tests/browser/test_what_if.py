"""The page What if, as somebody sees it who opens it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.conftest import Look

pytestmark = pytest.mark.browser

WHATIFS = re.compile(r"/whatifs$")
GPU = "nvidia.com/gpu"


def make_row(name: str, effect: str, *, queue: str = "research", **after: Any) -> dict[str, Any]:
    side = {
        "workload": f"{queue}/job-{name}",
        "job": f"Job/{name}",
        "clusterQueue": queue,
        "gpus": 4,
        "fate": "waits",
        "position": 2,
        "flavors": [],
        "borrows": False,
        "why": "",
        "stoppedBy": None,
    }
    runs = {"fate": "starts", "position": None, "flavors": ["a100"]}
    return {"effect": effect, "before": side, "after": {**side, **runs, **after}}


def make_answer(**status: Any) -> dict[str, Any]:
    """What the manager says to more quota for research, of which training loses."""
    by = {"workload": "research/job-bert", "reason": "InCohortReclamation", "message": ""}
    waits = {"fate": "waits", "position": 3, "flavors": []}
    rows = [
        make_row("bert", "starts now", borrows=True),
        make_row("llama", "starts now"),
        make_row("eval", "waits less", **waits, why="2 more needed"),
        make_row("sweep", "is stopped", queue="training", fate="stops", stoppedBy=by),
        make_row("probe", "waits longer", queue="training", **waits),
    ]
    pair = {"before": 1, "after": 0}
    found = {
        "time": "2026-11-23T08:00:00Z",
        "notes": [],
        "problem": "",
        "changes": ["ClusterQueue research: nvidia.com/gpu from 4 to 16 in flavor a100"],
        "workloads": rows,
        "more": 0,
        "others": {},
        "sums": {
            "starts": 2,
            "stopped": 1,
            "longer": 1,
            "never": 0,
            "gpuHoursLost": 1.25,
            "gpusIdle": pair,
            "gpusBorrowed": {"before": 2, "after": 2},
        },
        "gpusBeyondWorkers": 2,
        "leftOut": ["jobs that come later", "failures"],
        **status,
    }
    return {"kind": "WhatIf", "spec": {}, "status": found}


def answer(look: Look, status: int = 200, body: dict[str, Any] | None = None) -> None:
    look.page.route(WHATIFS, lambda route: route.fulfill(status=status, json=body))


def refuse(look: Look, status: int, message: str) -> None:
    answer(look, status, {"kind": "Status", "code": status, "message": message})


def try_change(look: Look, change: str) -> None:
    look.open("#/what-if", "Nothing is written")
    look.page.get_by_role("textbox", name="Changes, one a line").fill(change)
    look.page.get_by_role("button", name="Try", exact=True).click()


def test_the_form_writes_the_change_and_the_demo_answers(look: Look) -> None:
    page = look.page
    look.page.get_by_role("link", name="What if").click()
    page.get_by_text("Choose a change, or write one").wait_for()
    look.picture("what-if-empty")
    page.get_by_role("combobox", name="Queue").select_option("research")
    page.get_by_role("spinbutton", name="Quota").fill("30")
    page.get_by_role("button", name="Add", exact=True).click()
    text = page.get_by_role("textbox", name="Changes, one a line")
    assert re.fullmatch(rf"quota cq/research {GPU}(@\w+)?=30", text.input_value())
    page.get_by_role("button", name="Try", exact=True).click()
    page.get_by_text("ClusterQueue research: nvidia.com/gpu from").wait_for()
    page.get_by_text("Not foreseen:").wait_for()
    assert "try=quota" in page.url
    look.picture("what-if-demo")


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("hold", r"hold cq/inference"),
        ("drain", r"drain worker-a100"),
        ("add", r"add new-worker a100=8"),
        ("priority", r"priority \w+/\S+=1000"),
    ],
)
def test_each_choice_writes_a_line_that_the_manager_can_read(
    look: Look, kind: str, line: str
) -> None:
    page = look.page
    look.open("#/what-if", "Nothing is written")
    page.wait_for_function("() => document.querySelectorAll('.filters option').length > 8")
    page.get_by_role("combobox", name="Change", exact=True).select_option(kind)
    page.get_by_role("button", name="Add", exact=True).click()
    written = page.get_by_role("textbox", name="Changes, one a line").input_value()
    assert re.fullmatch(line, written)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_answer_is_drawn_and_accessible(look: Look, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = look.page
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    answer(look, 200, make_answer(others={"starts now": 2}, more=7, notes=["worker w is left out"]))
    try_change(look, f"quota cq/research {GPU}=16")
    page.get_by_text("Not foreseen:").wait_for()
    assert page.locator(".figure .value").all_inner_texts() == ["2", "1", "1", "1 → 0", "2"]
    words = page.locator(".sides").get_attribute("aria-label")
    assert words == "research: 12 GPUs gain, 0 GPUs lose; training: 0 GPUs gain, 8 GPUs lose"
    table = page.get_by_role("table", name="Jobs that fare differently")
    cells = table.get_by_role("row").filter(has_text="sweep").get_by_role("cell").all_inner_texts()
    assert [cells[3], cells[6]] == ["▼ is stopped", "makes room for research/job-bert"]
    page.get_by_text("Also 2 jobs of namespaces that you may not list: starts now 2.").wait_for()
    page.get_by_text("and 7 more jobs").wait_for()
    look.picture(f"what-if-{scheme}")
    found = Axe().run(page).response["violations"]
    assert [f"{each['id']}: {each['nodes'][0]['html']}" for each in found] == []


def test_a_change_without_effect_says_so(look: Look) -> None:
    answer(look, 200, make_answer(workloads=[]))
    try_change(look, "weight cq/research=1")
    look.page.get_by_text("Nothing would change: the same jobs start").wait_for()
    look.picture("what-if-nothing")


def test_while_the_manager_computes_the_answer_has_a_shape(look: Look) -> None:
    held: list[Any] = []
    look.page.route(WHATIFS, lambda route: held.append(route))  # noqa: PLW0108 - playwright marks it
    try_change(look, "hold cq/research")
    while not held:  # the page has a shape before it asks
        look.page.wait_for_timeout(20)
    look.page.locator(".loading").wait_for()
    held[-1].fulfill(json=make_answer())
    look.page.get_by_text("GPUs that gain and lose").wait_for()


def test_refusals_are_told_and_the_question_is_asked_again(look: Look) -> None:
    page = look.page
    try_change(look, "quota cq/nobody cpu=1")
    page.get_by_text("This cannot be tried").wait_for()
    page.get_by_text('ClusterQueue "nobody" is not in the snapshot').wait_for()
    look.picture("what-if-invalid")
    refuse(look, 429, "you asked 5 what-ifs in a row; one more is possible every 6 s")
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("Too much was asked").wait_for()
    look.picture("what-if-rate")
    page.unroute(WHATIFS)
    refuse(look, 502, "the API server does not answer: connection refused")
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("connection refused").wait_for()
    page.unroute(WHATIFS)
    refuse(look, 403, "whatifs.fleet.multiqueue.dev is forbidden: cannot create")
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("No right to see this").wait_for()
    look.picture("what-if-forbidden")
    page.unroute(WHATIFS)
    answer(look, 200, make_answer())
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("GPUs that gain and lose").wait_for()
    look.complaints.clear()  # the browser reports each answer that is an error


def test_keys_alone_ask_and_read_the_answer(look: Look) -> None:
    page = look.page
    answer(look, 200, make_answer())
    page.keyboard.press("g")
    page.keyboard.press("w")
    page.get_by_role("heading", name="What if").wait_for()
    is_text = "() => document.activeElement.tagName === 'TEXTAREA'"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate(is_text):
            break
    page.keyboard.type("hold cq/research")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Try"
    page.keyboard.press("Enter")
    page.get_by_text("GPUs that gain and lose").wait_for()


def test_an_address_with_a_change_asks_at_once_and_examples_are_added(look: Look) -> None:
    page = look.page
    answer(look, 200, make_answer())
    look.open("#/what-if?try=hold+cq%2Fresearch", "GPUs that gain and lose")
    text = page.get_by_role("textbox", name="Changes, one a line")
    assert text.input_value() == "hold cq/research"
    page.get_by_text("All changes can be written").click()
    page.get_by_role("button", name="cordon worker").click()
    assert text.input_value() == "hold cq/research\ncordon worker"


def test_a_phone_shows_an_answer_without_sideways_scrolling(look: Look) -> None:
    look.page.set_viewport_size({"width": 360, "height": 740})
    answer(look, 200, make_answer())
    try_change(look, "hold cq/research")
    look.page.get_by_text("Not foreseen:").wait_for()
    assert look.page.evaluate("() => document.documentElement.scrollWidth") <= 360
    look.picture("phone-what-if")


def test_names_in_an_answer_are_text(look: Look) -> None:
    evil = "<img src=x onerror=1>"
    answer(look, 200, make_answer(workloads=[make_row(evil, "starts now")], notes=[evil]))
    try_change(look, f"quota cq/{evil} cpu=1")
    look.page.get_by_text("Not foreseen:").wait_for()
    assert look.page.locator("main img").count() == 0
