"""The ``multiqueue`` program: tunes the garbage collector, then runs the command line.

Imports make many objects and no garbage. With Python's defaults, looking for it takes a third of
the time of a short command such as `why`.
"""

from __future__ import annotations

import atexit
import gc

GC_THRESHOLDS = (200_000, 10, 10)
"""More objects than a short command makes; long ones look for garbage less often."""


def main() -> int:
    """Run the command line of this process; returns the exit code."""
    gc.set_threshold(*GC_THRESHOLDS)
    # What is frozen is not searched when Python ends.
    atexit.register(gc.freeze)
    from multiqueue.cli.main import main as run  # click alone makes thousands of objects

    return run()
