"""Exit codes, and errors that are the user's to solve: shown as one message, never as a
traceback.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell gets to know."""

    OK = 0
    FAILED = 1
    """Refused, or it ended in another way than it should."""
    USAGE = 2
    """The command line, a file or a manifest cannot be understood."""
    UNREACHABLE = 3
    """The cluster does not answer, or does not know who we are."""


class CliError(Exception):
    """Ends the program with a message that names the object and what to do."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


class UsageProblem(CliError):  # noqa: N818 - a problem of the user, not of ours
    """Something that the user wrote cannot be understood."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)
