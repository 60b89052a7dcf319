"""Each class has a name of its own, so that a name leads to one place."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PRODUCT = Path(__file__).parents[2] / "multiqueue"
API = "multiqueue.api."
"""Kinds and fields are named by the API; the engine's nouns and options bear the same names."""
TWICE = {"FairSharing": "a field of a queue, and a section of the configuration"}


def test_no_two_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path in sorted(PRODUCT.rglob("*.py")):
        module = ".".join(path.relative_to(PRODUCT.parent).with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    shared = {
        name: modules
        for name, modules in places.items()
        if len([module for module in modules if not module.startswith(API)]) > 1
        or len([module for module in modules if module.startswith(API)]) > 1
    }
    assert {name: modules for name, modules in shared.items() if name not in TWICE} == {}
