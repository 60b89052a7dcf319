"""What dispatchers/README.md shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from multiqueue_dispatchers.filters import FILTERS
from multiqueue_dispatchers.scorers import WEIGHTS

README = Path(__file__).parents[3] / "dispatchers" / "README.md"


def test_the_dispatcher_and_its_tests_run():
    dispatcher, tests = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(dispatcher.strip().splitlines()) <= 12
    names: dict[str, object] = {}
    exec(dispatcher, names)
    exec(tests, names)
    ran = [name for name in names if name.startswith("test_")]
    for name in ran:
        names[name]()
    assert len(ran) == 2


def test_every_built_in_name_is_listed():
    from importlib.metadata import entry_points

    text = README.read_text()
    ours = [p.name for p in entry_points(group="multiqueue.dispatchers") if "multiqueue" in p.value]
    assert ours
    assert all(f"`{name}`" in text for name in ours)


def test_every_scorer_and_filter_is_listed_with_its_weight():
    text = README.read_text()
    rows = dict(re.findall(r"^\| `([a-z]+)` \| (\d+) \|", text, flags=re.MULTILINE))
    rows.pop("race")
    assert {name: int(weight) for name, weight in rows.items()} == dict(WEIGHTS)
    assert all(f"`{name}`" in text for name in FILTERS)
