"""Commands on pages: the blocks that carry a mark, and a shell that runs them.

A line above a block says what becomes of it: ``<!-- run -->``, or ``<!-- not run: the reason -->``.
``<!-- run after: COMMAND -->`` names what the reader has done before. In a block of the language
``console`` a command begins with ``$ ``, and what it prints follows; if that is an error, the
command must fail.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("sh", "bash", "console")
RUN = re.compile(r"<!-- run(?: after: (.+))? -->")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
FENCE = re.compile(r"^( *)```(\w*)$")
HEREDOC = re.compile(r"<<-?'?(\w+)")
AGE = re.compile(r"\b\d+(?:\.\d+)?(?:ms|s|m|h|d)(?:\d+s)?\b|\b\d\d:\d\d:\d\d\b")
"""Durations and times of day, which differ from run to run."""
RANDOM = re.compile(r"(?<=-)[a-z0-9]{5}\b")
"""What ends the names of pods and Workloads."""
NO_MARK = "it has no mark yet"
COMMAND_SECONDS = 40
SETTLE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCommand:
    """A command with the lines that it should print; None: any."""

    text: str
    prints: Sequence[str] | None

    @property
    def fails(self) -> bool:
        """Whether it should fail."""
        return any(line.startswith("error: ") for line in self.prints or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class PageBlock:
    """A block of commands; `reason` says why it is not run."""

    line: int
    commands: Sequence[PageCommand]
    reason: str = ""


def read_blocks(text: str) -> Iterator[PageBlock]:
    """Yield the blocks of commands of a page, and other blocks with a mark."""
    lines = text.splitlines()
    start = 0
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence is None:
            continue
        if not start:
            start = number + 1
            language = fence[2]
            above = lines[number - 1].strip() if number else ""
            continue
        run, reason = RUN.fullmatch(above), NOT_RUN.fullmatch(above)
        if language in LANGUAGES or run or reason:
            indent = len(fence[1])
            body = [each[indent:] for each in lines[start:number]]
            before = [PageCommand(text=run[1], prints=None)] if run and run[1] else []
            yield PageBlock(
                line=start,
                commands=[*before, *_commands(body, language)],
                reason="" if run else reason[1] if reason else NO_MARK,
            )
        start = 0


def _commands(lines: Sequence[str], language: str) -> Iterator[PageCommand]:
    is_console = language == "console"
    rest = list(lines)
    while rest:
        line = rest.pop(0)
        if not is_console and not line.strip():
            continue
        parts = [line.removeprefix("$ ")]
        end = HEREDOC.search(line)
        while rest and (parts[-1].endswith("\\") or (end and parts[-1] != end[1])):
            parts.append(rest.pop(0))
        prints = []
        while is_console and rest and not rest[0].startswith("$ "):
            prints.append(rest.pop(0))
        yield PageCommand(text="\n".join(parts), prints=prints if any(prints) else None)


def agrees(printed: str, wanted: Sequence[str]) -> bool:
    """Whether lines were printed in that order; ``...`` is any text, on its own any lines.

    Spaces, durations, times of day and the random ends of names may differ. Other lines may stand
    between them.
    """
    lines = iter(_flat(line) for line in printed.splitlines())
    patterns = [_pattern(line) for line in wanted if line.strip() not in {"", "..."}]
    return all(any(pattern.search(line) for line in lines) for pattern in patterns)


def _flat(line: str) -> str:
    return " ".join(AGE.sub("TIME", RANDOM.sub("ID", line)).split())


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(re.escape(_flat(line)).replace(re.escape("..."), ".*"))


class PageShell:
    """A bash that runs the commands of one page, one after the other.

    Args:
        folder: Where it starts.
        environment: Its environment.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: PageCommand) -> str:
        """Run a command; return what is wrong, or nothing.

        A command that ends otherwise than the page says, or prints other lines, is tried again for
        a while: what it shows may not have happened yet.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            status, printed = self._ask(command.text)
            ends_as_said = (status != 0) == command.fails
            if ends_as_said and (command.prints is None or agrees(printed, command.prints)):
                return ""
            if command.prints is None or time.monotonic() > deadline:
                return f"exit code {status}; it printed:\n{printed}"
            time.sleep(0.2)  # nothing tells when the clusters have come that far

    def close(self) -> None:
        """End the shell."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _ask(self, text: str) -> tuple[int, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(COMMAND_SECONDS, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(f"{{\n{text}\n}} </dev/null\nprintf '\\n@@ %s\\n' $?\n")
            self._process.stdin.flush()
            printed: list[str] = []
            for line in self._process.stdout:
                if line.startswith("@@ "):
                    return int(line.split()[1]), "".join(printed)
                printed.append(line)
        finally:
            timer.cancel()
        return 124, "".join(printed) + f"it did not end within {COMMAND_SECONDS} s"
