"""The buttons that change something, as somebody uses them who may."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Demo, Look, cancel_own_job, submit_own_job

pytestmark = pytest.mark.browser


def choose(look: Look, title: str) -> Any:
    """Press a button of the page's head, and return the question that appears."""
    button = look.page.locator(".actions button", has_text=re.compile(f"^{title}$"))
    button.click(timeout=45_000)  # the page asks each ten seconds which buttons there are
    question = look.page.locator("form.confirm")
    question.locator("p").wait_for()
    return question


def confirm(look: Look, question: Any, title: str, then: str) -> None:
    """Say yes, and wait for the button that undoes it."""
    question.locator("button.main").click()
    look.page.locator(".actions button", has_text=re.compile(f"^{then}$")).wait_for()
    assert question.count() == 0, title


def test_a_worker_is_cordoned_and_used_again(look: Look) -> None:
    look.open("#/clusters/worker-h100", "Runs here")
    question = choose(look, "Cordon")
    assert "No job is sent to this worker any more" in question.inner_text()
    question.get_by_role("button", name="Back").click()
    look.page.locator(".actions").wait_for()
    assert look.page.locator(".state", has_text="cordoned").count() == 0
    confirm(look, choose(look, "Cordon"), "Cordon", "Uncordon")
    look.page.locator(".state", has_text="cordoned").wait_for()
    look.picture("cordoned")
    confirm(look, choose(look, "Uncordon"), "Uncordon", "Cordon")


def test_a_queue_is_held_and_resumed(look: Look) -> None:
    look.open("#/queues/training", "Who waits, in order")
    confirm(look, choose(look, "Hold"), "Hold", "Resume")
    look.page.get_by_text("Admits nothing").wait_for()
    confirm(look, choose(look, "Resume"), "Resume", "Hold")


def test_who_stops_jobs_reads_what_is_lost_and_types_the_name(look: Look) -> None:
    from axe_playwright_python.sync_playwright import Axe

    look.open("#/queues/training", "Who waits, in order")
    stops = r"Now: \d+ jobs? with \d+ pods? on \d+ devices? (is|are) stopped; .*[\d.]+ GPU-hours"
    question = choose(look, "Hold and stop jobs")
    for _ in range(20):  # jobs of this queue come and go
        if re.search(stops, question.inner_text()):
            break
        question.get_by_role("button", name="Back").click()
        look.page.wait_for_timeout(1000)
        question = choose(look, "Hold and stop jobs")
    assert re.search(stops, question.inner_text())
    main = question.locator("button.main")
    assert main.is_disabled()
    question.locator("input").fill("training-")
    assert main.is_disabled()
    question.locator("input").fill("training")
    look.picture("stop-question")
    found = Axe().run(look.page).response["violations"]
    assert [each["id"] for each in found] == []
    confirm(look, question, "Hold and stop jobs", "Resume")
    assert look.page.locator(".actions button").all_inner_texts() == ["Resume", "Hold"]
    confirm(look, choose(look, "Resume"), "Resume", "Hold and stop jobs")


def test_a_waiting_job_is_stopped_and_resumed(look: Look) -> None:
    look.open("#/jobs?phase=Queued", "Jobs")
    # The last one waits longest.
    href = look.page.locator(".grid tbody tr:last-child a").first.get_attribute("href")
    look.open(href, "Way")
    question = choose(look, "Stop")
    assert "gives its quota back" in question.inner_text()
    question.locator("input").fill(href.rpartition("/")[2])
    confirm(look, question, "Stop", "Resume")
    look.picture("stopped-job")
    confirm(look, choose(look, "Resume"), "Resume", "Stop")
    # If it had begun to run, the page asks for its pods once more before it sees that it stops.
    look.complaints[:] = [each for each in look.complaints if not re.search("404|409", each)]


def test_a_running_job_gets_another_priority_is_evicted_and_cancelled(
    look: Look, demo: Demo, tmp_path: Path
) -> None:
    submit_own_job(demo, tmp_path, "own")
    look.open("#/jobs?q=own", "Jobs")
    link = look.page.locator(".grid tbody a", has_text="own").first
    href = str(link.get_attribute("href"))
    name = href.rpartition("/")[2]
    look.open(href, "Way")
    question = choose(look, "Evict")
    assert re.search(r"1 job with 1 pod on 1 device is stopped", question.inner_text())
    question.locator("input").fill(name)
    look.picture("evict-question")
    question.locator("button.main").click()
    question.wait_for(state="detached")
    look.page.get_by_text("Evicted").first.wait_for()
    look.picture("evicted-job")
    question = choose(look, "Priority")
    assert "Now: priority 2000 (class flagship)" in question.inner_text()
    assert question.locator("button.main").is_disabled()
    question.locator("select").select_option("batch-training")
    look.picture("priority-question")
    question.locator("button.main").click()
    look.page.locator(".facts dd", has_text=re.compile("^100$")).wait_for()
    question = choose(look, "Cancel job")
    assert "is deleted" in question.inner_text()
    question.locator("input").fill(name)
    look.picture("cancel-question")
    question.locator("button.main").click()
    look.page.get_by_text("There is no job").wait_for()
    look.picture("cancelled-job")
    # Its pods end, and it goes, while the page asks for them.
    look.complaints[:] = [each for each in look.complaints if not re.search("404|409", each)]


def foresee_drain(demo: Demo, worker: str) -> dict[str, str]:
    """Return what becomes of each job, as the command says."""
    command = [sys.executable, "-m", "multiqueue", "clusters", "drain", worker, "--dry-run"]
    where = ["--kubeconfig", demo.kubeconfigs["manager"], "-o", "json"]
    got = subprocess.run([*command, *where], check=True, capture_output=True, timeout=60)
    return {each["workload"]: each["then"] for each in json.loads(got.stdout)["workloads"]}


@pytest.fixture
def stays(demo: Demo, tmp_path: Path) -> Iterator[None]:
    """A job on the A100s for one test; as long as it is there, no gang of all eight can start."""
    submit_own_job(demo, tmp_path, "stays")
    yield
    cancel_own_job(demo, "stays")


@pytest.mark.usefixtures("stays")
def test_a_drain_tells_the_fate_of_each_job(look: Look, demo: Demo) -> None:
    look.open("#/clusters/worker-a100", "Runs here")
    look.page.locator("td a", has_text=re.compile("^stays$")).first.wait_for()
    question = choose(look, "Drain")
    for _ in range(20):  # it may still be offered only
        if "job-stays-" in question.inner_text():
            break
        question.get_by_role("button", name="Back").click()
        look.page.wait_for_timeout(1000)
        question = choose(look, "Drain")
    row = question.locator("tr", has_text="job-stays-")
    told = foresee_drain(demo, "worker-a100")
    (fate,) = [then for key, then in told.items() if key.startswith("training/job-stays-")]
    assert row.locator("td").nth(3).inner_text() == fate, "S-39: as the command says"
    assert re.search(r"GPU-hours of work would be lost|would stay|has room", question.inner_text())
    question.locator("input").fill("worker-a100")
    look.picture("drain-question")
    link = question.get_by_role("link", name="What if?")
    assert link.get_attribute("href") == "#/what-if?try=drain+worker-a100"
    confirm(look, question, "Drain", "Uncordon")
    look.page.locator(".state", has_text=re.compile("drain|stuck|waiting")).first.wait_for()
    look.picture("drained-worker")
    assert look.page.locator(".actions button").all_inner_texts() == ["Uncordon"]
    confirm(look, choose(look, "Uncordon"), "Uncordon", "Drain")


def test_a_refusal_is_shown_and_can_be_tried_again(look: Look) -> None:
    look.open("#/queues/research", "Who waits, in order")
    question = choose(look, "Hold")

    def refuse(route: Any) -> None:
        if route.request.method != "POST":
            route.continue_()
            return
        message = 'clusterqueues "research" is forbidden: the quota office is closed'
        body = {"kind": "Status", "code": 403, "message": message}
        route.fulfill(status=403, json=body)

    look.page.route("**/actions.json*", refuse)
    question.locator("button.main").click()
    look.page.get_by_text("the quota office is closed").wait_for()
    question.get_by_role("button", name="Try again").click()
    question.locator("button.main").wait_for()
    look.page.unroute("**/actions.json*")
    question.get_by_role("button", name="Back").click()
    look.page.locator(".actions button", has_text="Hold").first.wait_for()
    # The browser itself reports the refused request.
    look.complaints[:] = [each for each in look.complaints if "403" not in each]
