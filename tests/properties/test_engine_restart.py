"""An engine that was just started knows what the one knew that saw everything happen."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from multiqueue.engine.engine import Engine
from tests.builders.engine import NAMESPACE
from tests.properties.engine_history import History, rebuilt
from tests.properties.engine_specs import LOCAL_QUEUES, QUEUES


def state_of(engine: Engine) -> dict[str, object]:
    """Return all that is told of queues and nodes, but for who was refused already."""
    found: dict[str, object] = {}
    for name in QUEUES:
        queue = engine.cluster_queue_state(name)
        found[name] = queue and replace(queue, inadmissible=0, active_classes=0)
    for name in LOCAL_QUEUES:
        key = f"{NAMESPACE}/{name}"
        local = engine.local_queue_state(key)
        found[key] = local and replace(local, inadmissible=0)
    return found | {"nodes": engine.parts.cache.forest.usage.charges}


@given(st.integers(0, 100_000), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_a_restart_changes_nothing_in_whatever_order_objects_come(
    seed: int, shuffle: random.Random
) -> None:
    history = History(seed)
    for _ in range(40):
        history.step()
    for key in list(history.telling):
        history.evict_victim(key)
    for key in list(history.landing):
        history.land(key)
    for key in list(history.known):
        history.change(key)  # one that was set aside waits for its next version
    placing = history.engine.parts.quota_usage.placing
    assert not any(entry.assumed for entry in history.engine.parts.entries.values())
    for key, admission in list(placing.items()):
        history.engine.places_written(key, admission)
        history.change(key)
    before = state_of(history.engine)
    assert state_of(rebuilt(history, None)) == before
    assert state_of(rebuilt(history, shuffle)) == before
