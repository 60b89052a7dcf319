"""Writes one YAML file per kind, and removes files of removed kinds: ``make crds``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from multiqueue.api.crd.definitions import load_crds

HEADER = "# Generated from multiqueue/api/{version} by `make crds`. Do not edit.\n"


class _Dumper(yaml.SafeDumper):
    """Never writes anchors; indents lists as kubectl does."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def render(definition: dict[str, Any]) -> str:
    """Return the file of one definition; the same types give the same bytes."""
    version = next(each["name"] for each in definition["spec"]["versions"] if each["storage"])
    return HEADER.format(version=version) + yaml.dump(
        definition, Dumper=_Dumper, sort_keys=False, width=110
    )


def write(directory: Path) -> None:
    """Write all files of a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = {
        f"{definition['spec']['group']}_{definition['spec']['names']['plural']}.yaml": definition
        for definition in load_crds()
    }
    for path in directory.glob("*_*.yaml"):
        if path.name not in wanted:
            path.unlink()
    for name, definition in wanted.items():
        (directory / name).write_text(render(definition), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "config/crd"))
