"""docs/spec: every rule that is named exists, and every rule is held by a module and a test."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


def load() -> ModuleType:
    """Return the tool that makes the index."""
    path = ROOT / "tools" / "spec_index.py"
    spec = importlib.util.spec_from_file_location("spec_index", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load()


class Spec(NamedTuple):
    """What the pages define and what names it; read once, by the first test that asks."""

    rules: list[Any]
    scenarios: set[str]
    references: list[Any]
    modules: dict[str, list[str]]
    tests: dict[str, list[str]]

    @property
    def built(self) -> list[str]:
        return [rule.name for rule in self.rules if not rule.not_built]


@pytest.fixture(scope="module")
def spec() -> Spec:
    rules, scenarios = TOOL.read_rules(), TOOL.read_scenarios()
    references = TOOL.read_references({rule.name for rule in rules} | scenarios)
    modules = TOOL.find_holders(references, TOOL.MODULES)
    tests = TOOL.find_holders(references, TOOL.TESTS)
    return Spec(rules, scenarios, references, modules, tests)


def test_each_number_is_defined_once(spec: Spec) -> None:
    names = Counter([*(rule.name for rule in spec.rules), *spec.scenarios])
    assert [name for name, times in names.items() if times > 1] == []


def test_whatever_is_named_is_defined(spec: Spec) -> None:
    parts = {rule.name: rule.parts for rule in spec.rules}
    parts |= dict.fromkeys(spec.scenarios, frozenset())
    unknown = {
        f"{ref.rule}{ref.part} in {ref.file}"
        for ref in spec.references
        if ref.rule not in parts or (ref.part and ref.part not in parts[ref.rule])
    }
    assert sorted(unknown) == []


def test_each_rule_has_a_module_or_is_not_built(spec: Spec) -> None:
    assert [name for name in spec.built if name not in spec.modules] == []


def test_each_rule_has_a_test_or_is_not_built(spec: Spec) -> None:
    assert [name for name in spec.built if name not in spec.tests] == []


def test_what_is_built_is_not_said_to_be_missing(spec: Spec) -> None:
    held = spec.modules.keys() & spec.tests.keys()
    assert [rule.name for rule in spec.rules if rule.not_built and rule.name in held] == []


def test_each_deviation_that_a_rule_names_is_listed() -> None:
    listed = re.findall(
        r"^\| (\d+) \|", (ROOT / "docs" / "compatibility.md").read_text(), re.MULTILINE
    )
    pages = [ROOT / TOOL.SPEC / name for name in ("engine.md", "multikueue.md")]
    named = {
        number
        for page in pages
        for numbers in re.findall(r"\(deviations?\s([\d, ]+)", page.read_text())
        for number in re.findall(r"\d+", numbers)
    }
    assert named
    assert sorted(named - set(listed)) == []


def test_the_index_is_current(spec: Spec) -> None:
    references = [ref for ref in spec.references if ref.rule not in spec.scenarios]
    want = TOOL.build_index(spec.rules, references)
    assert (ROOT / TOOL.INDEX).read_text() == want, "run `make spec` and commit the result"


def test_references_are_read_as_people_write_them(tmp_path: Path) -> None:
    folder = tmp_path / "multiqueue"
    folder.mkdir()
    text = "(X-1, Y-91b), X-3 to X-5, X-7..8, UTF-8, X-20 to X-50, X-99."
    (folder / "module.py").write_text(text)
    known = {*(f"X-{number}" for number in (1, 3, 5, 7, 8, 20, 30, 50)), "Y-91"}
    found = TOOL.read_references(known, tmp_path)
    got = sorted((ref.rule + ref.part, ref.holds) for ref in found)
    held = ["X-1", "X-3", "X-5", "X-7", "X-8", "X-99", "Y-91b"]
    overview = ["X-20", "X-30", "X-50"]
    assert got == sorted([(n, True) for n in held] + [(n, False) for n in overview])
