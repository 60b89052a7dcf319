"""A browser that looks at the dashboard of a running demo, which is a program of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from multiqueue.runtime.demo.jobs import DemoJob, build_job

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
START_SECONDS = 90
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENSHOTS = os.environ.get("SCREENSHOTS", "")
"""A folder for a picture of each page that a test looked at; none by default."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip without a browser, except where it has to be there."""
    if CHROMIUM or os.environ.get("CI"):
        return
    skip = pytest.mark.skip(reason="no Chromium on this machine: apt-get install chromium")
    for item in items:
        if "tests/browser" in str(item.path):
            item.add_marker(skip)


@dataclass(slots=True)
class Demo:
    """A running demo; `address` is that of its dashboard, with the key."""

    address: str
    kubeconfigs: dict[str, str]
    manager_pid: int
    process: subprocess.Popen[str]


@dataclass(slots=True)
class Look:
    """One page of the browser, and what it complained about."""

    page: Any
    complaints: list[str] = field(default_factory=list)

    def open(self, where: str, ready: str) -> None:
        """Go to a page of the dashboard, and wait for some text on it."""
        self.page.evaluate("(where) => { location.hash = where; }", where)
        self.page.get_by_text(ready).first.wait_for()

    def picture(self, name: str) -> None:
        """Keep a screenshot."""
        if SCREENSHOTS:
            Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(SCREENSHOTS) / f"{name}.png"), full_page=True)


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    """The demo with a stream of jobs."""
    with tempfile.TemporaryDirectory(prefix="multiqueue-browser-") as folder:
        command = [sys.executable, "-m", "multiqueue", "demo", "--serve", "--jobs"]
        process = subprocess.Popen(
            [*command, "--speed", "3", "--data", folder, "-o", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            yield _read_demo(process)
        finally:
            process.terminate()
            process.wait(START_SECONDS)
            assert process.stdout is not None
            process.stdout.close()


def _read_demo(process: subprocess.Popen[str]) -> Demo:
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line.startswith("}"):
            break
    found = json.loads(text)
    return Demo(found["dashboard"], found["kubeconfigs"], found["manager"]["pid"], process)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium; nothing is downloaded."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def look(browser: Any, demo: Demo) -> Iterator[Look]:
    """A fresh reader of the demo, on the fleet page."""
    for found in open_look(browser, demo.address):
        found.page.get_by_role("navigation").wait_for()  # keys work once it is drawn
        yield found


def open_look(browser: Any, address: str, **options: Any) -> Iterator[Look]:
    """Open the dashboard in a context of its own; end with an error if the console has one."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, **options)
    found = Look(context.new_page())
    found.page.set_default_timeout(15_000)
    found.page.on(
        "console",
        lambda message: found.complaints.append(message.text) if message.type == "error" else None,
    )
    found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.page.goto(address)
    yield found
    context.close()
    assert found.complaints == []


def submit_own_job(demo: Demo, folder: Path, name: str, gpus: int = 1) -> None:
    """Submit a job that goes before all others on the A100s, and runs until it is stopped."""
    job = DemoJob(
        team="training",
        name=name,
        pods=1,
        gpus_each=gpus,
        run_seconds=3600,
        accelerator="a100",
        priority="flagship",
    )
    manifest = folder / f"{name}.json"
    manifest.write_text(json.dumps(build_job(job)))
    _run(demo, "submit", "-f", str(manifest))


def cancel_own_job(demo: Demo, name: str) -> None:
    """Delete a job of `submit_own_job`, and wait until it is gone."""
    _run(demo, "cancel", name, "-n", "training", "-y", "--wait")


def _run(demo: Demo, *words: str) -> None:
    command = [sys.executable, "-m", "multiqueue", *words]
    where = ["--kubeconfig", demo.kubeconfigs["manager"]]
    subprocess.run([*command, *where], check=True, capture_output=True, timeout=60)
