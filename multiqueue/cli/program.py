"""The ``multiqueue`` program: tunes the garbage collector, then runs the command line.

Imports create many objects and no garbage. With Python's defaults, the garbage collector takes a
third of the time of a short command such as `why`.
"""

from __future__ import annotations

import atexit
import gc

GC_THRESHOLDS = (200_000, 10, 10)
"""More objects than a short command creates; long commands collect garbage less often."""


def main() -> int:
    """Run the command line of this process; return the exit code."""
    gc.set_threshold(*GC_THRESHOLDS)
    # Python does not search frozen objects for garbage at exit.
    atexit.register(gc.freeze)
    from multiqueue.cli.main import main as run  # click alone creates thousands of objects

    return run()
