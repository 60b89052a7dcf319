"""What all tests share."""

import structlog
from hypothesis import settings

# No deadline: a busy machine is no failure. Fixed seeds: a run means the same everywhere; what
# `explore` finds (make nightly) becomes a named example.
settings.register_profile("multiqueue", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("multiqueue")


def pytest_configure() -> None:
    """Log in plain text: structlog draws every local variable of a traceback, for minutes."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0),
        ]
    )
