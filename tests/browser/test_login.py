"""The dashboard beside a manager, as somebody uses it who has a token and no kubeconfig."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import Any, Self

import pytest

from multiqueue.kube.resources import CLUSTER_QUEUES, SERVICE_ACCOUNTS
from tests.browser.conftest import Look, open_look
from tests.integration.test_dashboard_login import LoginWorld, login_world

pytestmark = pytest.mark.browser

SECONDS = 60.0


class ManagerThread:
    """A cluster with a manager and its dashboard, on an event loop of its own.

    Args:
        dashboard: More of its configuration.
    """

    def __init__(self, **dashboard: Any) -> None:
        self._dashboard = dashboard
        self.loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[LoginWorld] = self.loop.create_future()
        self._thread = threading.Thread(target=self.loop.run_until_complete, args=(self._run(),))

    async def _run(self) -> None:
        try:
            async with login_world(**self._dashboard) as world:
                self._ready.set_result(world)
                await self._stop.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            raise

    def __enter__(self) -> Self:
        self._thread.start()
        self.world = self.call(asyncio.wait_for(self._ready, SECONDS))
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        self.loop.close()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    def token(self, name: str, role: str, *, everywhere: bool = True) -> str:
        token: str = self.call(self.world.token(name, role, everywhere=everywhere))
        return token


@pytest.fixture(scope="module")
def manager() -> Iterator[ManagerThread]:
    with ManagerThread() as thread:
        yield thread


@pytest.fixture
def visitor(browser: Any, manager: ManagerThread) -> Iterator[Look]:
    """Somebody at the dashboard who is not logged in."""
    looks = open_look(
        browser, f"https://127.0.0.1:{manager.world.port}/#/jobs", ignore_https_errors=True
    )
    look = next(looks)
    yield look
    # Chromium itself writes down each answer of 401 and 429: here they are what is tested.
    look.complaints[:] = [each for each in look.complaints if "status of 4" not in each]
    with pytest.raises(StopIteration):
        next(looks)


def log_in(look: Look, token: str) -> None:
    look.page.get_by_label("Token").fill(token)
    look.page.get_by_role("button", name="Log in", exact=True).click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_login_is_accessible_and_says_where_to_get_a_token(visitor: Look, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    look = visitor
    look.page.emulate_media(color_scheme=scheme)
    look.page.get_by_text("kubectl create token NAME").wait_for()
    assert look.page.title() == "Log in - multiqueue"
    look.picture(f"login-{scheme}")
    found = Axe().run(look.page).response["violations"]
    assert [f"{each['id']}: {each['nodes'][0]['html']}" for each in found] == []
    look.page.set_viewport_size({"width": 360, "height": 740})
    assert look.page.evaluate("() => document.documentElement.scrollWidth") <= 360


def test_a_wrong_token_is_told_and_a_right_one_opens_the_page(
    visitor: Look, manager: ManagerThread
) -> None:
    page = visitor.page
    log_in(visitor, "wrong")
    page.get_by_role("alert").get_by_text("does not know this token").wait_for()
    visitor.picture("login-wrong")
    token = manager.token("operator", "cluster-admin")
    log_in(visitor, token)
    page.locator(".grid tbody a").first.wait_for()
    page.locator(".light.good").wait_for()
    assert "#/jobs" in page.url, "the address that was opened is shown"
    assert token not in page.evaluate("() => JSON.stringify({...localStorage}) + document.cookie")
    visitor.picture("login-in")
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in").wait_for()
    page.reload()
    page.get_by_role("heading", name="Log in").wait_for()


def test_a_reader_of_one_namespace_sees_its_jobs_and_which_rights_lack(
    visitor: Look, manager: ManagerThread
) -> None:
    log_in(visitor, manager.token("student", "view", everywhere=False))
    visitor.page.locator(".grid tbody a").first.wait_for()
    visitor.open("#/quota", "No right to see this")
    visitor.picture("login-one-namespace")
    visitor.open("#/", "No right to see this")
    visitor.page.locator(".lately li").first.wait_for()
    assert visitor.page.get_by_text("No right to see this").count() == 1
    visitor.picture("fleet-one-namespace")


def test_a_login_that_ends_is_renewed_in_place_and_nothing_typed_is_lost(
    visitor: Look, manager: ManagerThread
) -> None:
    page, world = visitor.page, manager.world
    log_in(visitor, manager.token("late", "cluster-admin"))
    page.locator(".light.good").wait_for()
    visitor.open("#/queues/" + world.reader.asker.cluster_queue, "Who waits, in order")
    page.locator(".actions button", has_text="Hold and stop jobs").click()
    page.get_by_label("To confirm, type its name").fill("half of a na")
    manager.call(
        world.reader.client.delete(SERVICE_ACCOUNTS, "late", namespace=world.reader.namespace)
    )
    # The page asks about its buttons every ten seconds; the open stream is asked about after 30.
    page.get_by_text("Your login has ended.").wait_for(timeout=60_000)
    visitor.picture("login-ended")
    page.locator(".stale").wait_for()  # its style comes with the next frame
    assert page.get_by_label("To confirm, type its name").input_value() == "half of a na"
    log_in(visitor, manager.token("late", ""))  # the role is still bound to the name
    page.locator(".light.good").wait_for()
    assert page.get_by_label("To confirm, type its name").input_value() == "half of a na"
    page.locator(".stale").wait_for(state="detached")


def test_an_action_that_met_the_end_of_a_login_is_taken_once_after_the_next(
    visitor: Look, manager: ManagerThread
) -> None:
    page, world = visitor.page, manager.world
    queue, client = world.reader.asker.cluster_queue, world.reader.client

    def policy() -> str:
        found: str = manager.call(client.get(CLUSTER_QUEUES, queue))["spec"].get("stopPolicy", "")
        return found

    log_in(visitor, manager.token("brief", "cluster-admin"))
    page.locator(".light.good").wait_for()
    visitor.open("#/queues/" + queue, "Who waits, in order")
    page.locator(".actions button", has_text=re.compile("^Hold$")).click()
    question = page.locator("form.confirm")
    question.locator("p").wait_for()
    manager.call(client.delete(SERVICE_ACCOUNTS, "brief", namespace=world.reader.namespace))
    question.locator("button.main").click()
    page.get_by_text("nothing was done, because the login had ended").wait_for()
    visitor.picture("login-action")
    log_in(visitor, manager.token("brief", ""))
    page.get_by_role("button", name="Log in", exact=True).wait_for(state="detached")
    assert policy() in {"", "None"}, "nothing is sent again by itself"
    page.get_by_role("button", name="Try again").click()
    question.locator("button.main").click()
    page.locator(".actions button", has_text=re.compile("^Resume$")).wait_for()
    assert policy() == "Hold"
    page.locator(".actions button", has_text=re.compile("^Resume$")).click()
    question.locator("button.main").click()
    page.locator(".actions button", has_text=re.compile("^Hold$")).wait_for()


def test_a_login_that_ends_soon_says_so(visitor: Look, manager: ManagerThread) -> None:
    token = manager.token("soon", "cluster-admin")
    page = visitor.page
    log_in(visitor, token)
    page.locator(".light.good").wait_for()
    assert page.get_by_text("Your login ends at").count() == 0
    page.clock.set_fixed_time(
        page.evaluate("() => Date.now()") + timedelta(minutes=57).seconds * 1000
    )
    page.get_by_text("Your login ends at").wait_for()
    page.get_by_role("button", name="Log in again").click()
    visitor.picture("login-soon")
    page.get_by_label("Token").wait_for()
