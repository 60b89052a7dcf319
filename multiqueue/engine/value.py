"""The base class of values of which the hot path makes thousands."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A frozen value: like a frozen dataclass, but five times faster to make.

    The garbage collector does not track it. A value never refers back to its holder, so there are
    no cycles to find.
    """
