"""The base of values that the hot path makes by the thousand."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frozen value: like a frozen dataclass, but made five times faster.

    The garbage collector does not look at it; a value never refers back to its holder, so there is
    no cycle to find.
    """
