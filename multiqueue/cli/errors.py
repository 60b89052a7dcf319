"""Exit codes, and errors that users can solve: shown as one message, without a traceback."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of the program."""

    OK = 0
    FAILED = 1
    """The request was refused, or did not end as it should."""
    USAGE = 2
    """The command line, a file or a manifest is invalid."""
    UNREACHABLE = 3
    """The cluster does not answer, or does not know the user."""


class CliError(Exception):
    """Ends the program with a message that names the object and the remedy."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


class UsageProblem(CliError):  # noqa: N818 - a problem of the user, not of ours
    """The user's input is invalid."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)
