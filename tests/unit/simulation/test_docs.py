from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from multiqueue.cli.commands.simulate import command
from multiqueue.simulation.fleet_file import parse_fleet

TEXT = (Path(__file__).parents[3] / "docs" / "simulation.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def lines() -> list[str]:
    return [line for block in blocks("bash") for line in block.splitlines()]


def test_the_fleet_of_the_documentation_is_one() -> None:
    (block,) = blocks("yaml")
    fleet = parse_fleet(yaml.safe_load(block))
    assert [cluster.name for cluster in fleet.clusters] == ["west", "east"]


@pytest.mark.parametrize("line", lines())
def test_commands_of_the_documentation_can_be_read(line: str) -> None:
    program, name, *options = shlex.split(line, comments=True)
    assert (program, name) == ("multiqueue", "simulate")
    assert command.make_context("simulate", options).params["load"] > 0
