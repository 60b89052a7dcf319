"""Runs the steps of a Dockerfile without Docker: its paths are mapped into a folder.

What a base image brings (a Python, a shell) is this machine's. Each stage has a root folder of its
own while it is current, at the same place, because virtual environments do not like to move.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

OURS = ("src", "opt")
"""Top folders that belong to the image; others are the machine's."""


@dataclass(slots=True)
class Image:
    """What the last stage says about itself."""

    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    user: str = ""
    workdir: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def parse(text: str) -> Iterator[tuple[str, str]]:
    """Instructions with their arguments; ARGs that are set in the file are filled in."""
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text))
    arguments: dict[str, str] = {}
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "ARG":
            key, _, value = rest.partition("=")
            arguments[key] = value
        filled = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], rest.strip())
        yield name, filled


class Builder:
    """Builds the image of a Dockerfile below a folder.

    Args:
        context: The folder that is sent to Docker, with its ``.dockerignore``.
        folder: Where to build; `root` in it becomes the image's file system.
        environment: What commands of the build see.
    """

    def __init__(self, context: Path, folder: Path, environment: Mapping[str, str]) -> None:
        self.root = folder / "root"
        self.image = Image()
        self._folder = folder
        self._environment = dict(environment)
        self._stage = ""
        self._bases: list[str] = []
        self._context = folder / "context"
        _send(context, self._context)

    def build(self, dockerfile: str) -> Image:
        """Carry out all instructions."""
        for name, rest in parse(dockerfile):
            getattr(self, f"_{name.lower()}")(rest)
        return self.image

    def map(self, text: str) -> str:
        """Replace paths of the image by those of this machine."""
        return re.sub(rf"(?<![\w./-])/({'|'.join(OURS)})\b", rf"{self.root}/\1", text)

    def _arg(self, rest: str) -> None:
        """Done by `parse`."""

    def _from(self, rest: str) -> None:
        if self._stage:
            self.root.rename(self._folder / self._stage)
        self.root.mkdir()
        words = rest.split()
        self._bases.append(words[0])
        self._stage = words[2] if len(words) > 2 else "last"
        self.image = Image()

    def _workdir(self, rest: str) -> None:
        self.image.workdir = rest
        Path(self.map(rest)).mkdir(parents=True, exist_ok=True)

    def _copy(self, rest: str) -> None:
        *sources, target = rest.split()
        origin = self._context
        if sources[0].startswith("--from="):
            origin = self._folder / sources.pop(0).removeprefix("--from=")
        folder = Path(self.map(self.image.workdir))
        for source in sources:
            path = origin / source.lstrip("/")
            wanted = Path(self.map(target)) if target.startswith("/") else folder / target
            if target.endswith("/"):
                wanted /= path.name
            wanted.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, wanted, symlinks=True)
            else:
                shutil.copy2(path, wanted)

    def _run(self, rest: str) -> None:
        command = self.map(re.sub(r"--mount=\S+\s+", "", rest))
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=self.map(self.image.workdir),
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"RUN {rest}\n{done.stdout}{done.stderr}"

    def _env(self, rest: str) -> None:
        self.image.environment.update(_pairs(rest))

    def _label(self, rest: str) -> None:
        self.image.labels.update(_pairs(rest))

    def _user(self, rest: str) -> None:
        self.image.user = rest

    def _entrypoint(self, rest: str) -> None:
        self.image.entrypoint = json.loads(rest)

    def _cmd(self, rest: str) -> None:
        self.image.command = json.loads(rest)


def _pairs(rest: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(rest))


def _send(context: Path, target: Path) -> None:
    """Copy what ``.dockerignore`` leaves: the last pattern that fits decides."""
    lines = (context / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]

    def is_sent(path: str) -> bool:
        sent = True
        for pattern in patterns:
            wanted = pattern.removeprefix("!").removeprefix("**/")
            parts = path.split("/")
            names = parts if pattern.startswith("**/") else parts[:1]
            if any(fnmatch.fnmatch(name, wanted) for name in names):
                sent = pattern.startswith("!")
        return sent

    for folder, subfolders, files in os.walk(context):
        here = Path(folder).relative_to(context)
        subfolders[:] = [name for name in subfolders if is_sent((here / name).as_posix())]
        for name in files:
            if is_sent((here / name).as_posix()):
                (target / here).mkdir(parents=True, exist_ok=True)
                shutil.copy2(context / here / name, target / here / name)
