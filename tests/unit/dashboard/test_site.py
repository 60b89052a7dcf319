"""The files of the page: what is vendored, what they may not contain, and how large they are."""

from __future__ import annotations

import gzip
import hashlib
import re
import tomllib
from pathlib import Path

import pytest

import multiqueue.dashboard
from multiqueue.dashboard.forwarding import is_readable, is_stream
from multiqueue.dashboard.site import Site, shrink

ASSETS = Path(multiqueue.dashboard.__file__).parent / "assets"
OWN = sorted(path for path in (ASSETS / "app").rglob("*.mjs"))
BANNED = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|srcdoc"
    r"|javascript:|\beval\(|new Function|setAttribute\(.style"
)
MAX_BYTES = 140 * 1024
MAX_GZIP_BYTES = 40 * 1024
"""Of what a browser loads to show one of the pages; S-45 allows 45 KB."""


def test_vendored_files_are_those_that_were_looked_at() -> None:
    table = tomllib.loads((ASSETS / "vendor" / "VENDOR.toml").read_text())["file"]
    for row in table:
        found = hashlib.sha256((ASSETS / "vendor" / row["name"]).read_bytes()).hexdigest()
        assert found == row["sha256"], row["name"]
    names = {path.name for path in (ASSETS / "vendor").glob("*.mjs")}
    assert names == {row["name"] for row in table}


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.relative_to(ASSETS)))
def test_text_of_the_cluster_never_becomes_markup(path: Path) -> None:
    assert BANNED.search(path.read_text()) is None


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.relative_to(ASSETS)))
def test_a_module_is_short_and_imports_what_exists(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    for target in re.findall(r'from "(\.[^"]+)"', text):
        assert (path.parent / target).resolve().is_file(), target


def imported(name: str) -> set[str]:
    """Return a module and those that it imports, which browsers load with it."""
    found: set[str] = set()
    left = [name]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            for target in re.findall(r'from "(\.[^"]+)"', (ASSETS / each).read_text()):
                path = (ASSETS / each).parent.joinpath(target).resolve()
                left.append(path.relative_to(ASSETS).as_posix())
    return found


def test_the_page_is_small_and_needs_nothing_from_elsewhere() -> None:
    site = Site()
    bodies = {path: found.body for path in site.paths() if (found := site.get(path))}
    sizes = {path.split("/", 3)[-1]: len(gzip.compress(body)) for path, body in bodies.items()}
    assert sum(map(len, bodies.values())) <= MAX_BYTES
    always = {name for name in sizes if not name.endswith(".mjs")} | imported("app/main.mjs")
    loaded = re.findall(r'import\("\./([^"]+)"\)', (ASSETS / "app/main.mjs").read_text())
    assert len(loaded) > 10
    for name in loaded:
        needed = always | imported(f"app/{name}")
        assert sum(sizes[each] for each in needed) <= MAX_GZIP_BYTES, name
    page = site.get("/")
    assert page is not None
    assert not page.immutable
    assert re.findall(rb'(?:src|href)="(?!assets/|/")', page.body) == []
    assert b"<style" not in page.body
    assert re.search(rb"<script(?![^>]*src=)", page.body) is None


def test_browsers_get_our_files_without_comments_and_all_else_as_it_is() -> None:
    text = (
        b"// who\nconst a = 1; // kept\n  /** one */\n/**\n * @param x\n */\n"
        b"  export const b = `a /* not a comment */ b`;\n/** type */ (a);\n"
    )
    style = (
        b'/* a */\na { b: c; }\n\n@media (d: 1px) {\n  e, f g[j="k: l, m"] :n { h: i; o: p; }\n}\n'
    )
    assert shrink("app.css", style) == b'a{b:c}@media (d:1px){e,f g[j="k: l, m"] :n{h:i;o:p}}'
    shrunk = b"const a = 1; // kept\nexport const b = `a /* not a comment */ b`;\n"
    assert shrink("app/a.mjs", text) == shrunk + b"/** type */ (a);\n"
    assert shrink("vendor/a.mjs", text) == text
    assert shrink("icon.svg", text) == text


def test_files_have_a_path_that_changes_with_them_and_a_type() -> None:
    site = Site()
    script = next(path for path in site.paths() if path.endswith("/app/main.mjs"))
    found = site.get(script)
    assert found is not None
    assert (found.immutable, found.content_type) == (True, "text/javascript; charset=utf-8")
    assert site.get("/assets/../site.py") is None
    assert site.get(f"{script}/../../vendor/VENDOR.toml") is None


def test_the_page_asks_below_its_base_and_its_files_stay_the_same() -> None:
    page, below = Site().get("/"), Site("/queue").get("/")
    assert page is not None
    assert below is not None
    assert b'<base href="/">' in page.body
    assert page.body.replace(b'<base href="/">', b'<base href="/queue/">') == below.body
    assert Site().paths() == Site("/queue").paths()
    rooted = re.compile(
        r"""(?:fetch|ask|send|useAnswer)\(["'`]/|(?:href|src)=["'$`{]*/|["'`]/apis"""
    )
    assert [path.name for path in OWN if rooted.search(path.read_text())] == []


FLEET = "/apis/fleet.multiqueue.dev/v1alpha1"
REMOTE = "/apis/remote.multiqueue.dev/v1alpha1/namespaces/a/workloads/w"


@pytest.mark.parametrize(
    "path",
    [f"{FLEET}/feeds", f"{FLEET}/namespaces/a/feeds", f"{FLEET}/lines/cq", f"{REMOTE}/log"],
)
def test_the_page_may_read_the_fleet_and_what_jobs_do(path: str) -> None:
    assert is_readable(path)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/secrets",
        "/api/v1/namespaces/a/secrets/s",
        "/api/v1/namespaces/a/pods/p/exec",
        f"{FLEET}/../../v1/secrets",
        f"{FLEET}/namespaces/a/%2e%2e/secrets",
        f"{FLEET}/feeds/",
        f"{REMOTE}/exec",
        "/apis/batch/v1/jobs",
        "/",
    ],
)
def test_the_page_may_read_nothing_else(path: str) -> None:
    assert not is_readable(path)


def test_the_feed_and_followed_logs_are_streams() -> None:
    assert is_stream(f"{FLEET}/feeds", {})
    assert is_stream(f"{REMOTE}/log", {"follow": "true"})
    assert not is_stream(f"{REMOTE}/log", {})
