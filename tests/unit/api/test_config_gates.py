"""All gates of upstream, compared with a table of their own, and what may be set of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import multiqueue
from multiqueue.api.config import Gate, Gates
from multiqueue.api.config.gate_history import HISTORY
from multiqueue.api.config.gate_support import rows
from multiqueue.api.config.gates import ALIKE, GATES, WHY, find_gate_errors

SOURCES = list(Path(multiqueue.__file__).parent.rglob("*.py"))
TABLE = Path(__file__).with_name("feature_gates.txt")


def test_gates_are_those_of_upstream() -> None:
    """One line a gate: name, stage, default, what it requires, history."""
    got = [
        " | ".join(
            [row.name, row.stage, str(row.default).lower(), ", ".join(row.requires), row.history]
        )
        for row in rows()
    ]
    assert got == TABLE.read_text().splitlines()
    assert len(got) == 80


def test_every_gate_has_a_history() -> None:
    assert set(HISTORY) == set(Gate)


def test_every_gate_whose_settings_both_work_is_read_by_the_product() -> None:
    """A gate is adjustable unless a table says why not; so one that nobody reads must be there."""
    tables = {"gates.py", "gate_history.py"}
    sources = "".join(path.read_text() for path in SOURCES if path.name not in tables)
    adjustable = {gate for gate, spec in GATES.items() if spec.adjustable}
    unread = {
        gate for gate in adjustable if not re.search(rf"Gate\.{gate.name}\b|\"{gate}\"", sources)
    }
    assert not unread
    assert not adjustable & {*WHY, *ALIKE}
    assert not set(WHY) & ALIKE


def errors(**settings: bool) -> list[tuple[str, str]]:
    return list(find_gate_errors(settings))


@pytest.mark.parametrize("gate", list(Gate))
def test_the_default_may_always_be_written(gate: Gate) -> None:
    assert errors(**{gate.value: GATES[gate].default}) == []


@pytest.mark.parametrize("gate", [g for g, spec in GATES.items() if spec.adjustable])
def test_an_adjustable_gate_may_leave_its_default(gate: Gate) -> None:
    assert errors(**{gate.value: not GATES[gate].default}) == []


@pytest.mark.parametrize("gate", list(WHY))
def test_a_gate_that_would_do_nothing_may_not_be_moved(gate: Gate) -> None:
    ((name, problem),) = errors(**{gate.value: not GATES[gate].default})
    assert name == gate
    assert "is implemented yet; remove the setting" in problem


def test_a_locked_gate_may_not_be_moved() -> None:
    assert errors(TLSOptions=False) == [
        ("TLSOptions", "is locked to true; remove the setting"),
    ]


DEPENDENT = [(gate, need) for gate, spec in GATES.items() for need in spec.requires]


@pytest.mark.parametrize(("gate", "need"), DEPENDENT)
def test_a_gate_that_is_asked_for_needs_what_it_requires(gate: Gate, need: Gate) -> None:
    problems = dict(errors(**{gate.value: True, need.value: False}))
    allowed = GATES[gate].default or GATES[gate].adjustable
    if allowed:
        assert problems[gate].startswith(f"requires {need}; enable it too")
        assert gate.value in problems[gate]
    else:
        assert gate in problems


@pytest.mark.parametrize(("gate", "need"), DEPENDENT)
def test_a_gate_is_off_without_what_it_requires(gate: Gate, need: Gate) -> None:
    assert not Gates({need: False, gate: True}).enabled(gate)


def test_gates_that_need_a_gate_go_off_with_it_unasked() -> None:
    assert errors(TopologyAwareScheduling=False) == []
