"""Test kit for dispatcher authors: builders for views, and a check of the contract.

```python
from multiqueue.plugins.testing import assert_dispatcher_contract, make_cluster, make_view


def test_contract():
    assert_dispatcher_contract(Cheapest())


def test_takes_the_free_one():
    view = make_view(gpus=4, clusters=[make_cluster("a", gpus=8, used=8), make_cluster("b")])
    assert Cheapest().nominate(view).clusters == ("b",)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from multiqueue.plugins.builders import (
    GPU,
    JOB_KIND,
    T0,
    make_cluster,
    make_lost_cluster,
    make_queue,
    make_unknown_cluster,
    make_view,
    make_workload,
)
from multiqueue.plugins.contract import BUDGET, PROMISES, Breach, find_breaches
from multiqueue.plugins.dispatcher import Dispatcher
from multiqueue.plugins.samples import make_sample_views
from multiqueue.plugins.view import DispatchView

__all__ = [
    "BUDGET",
    "GPU",
    "JOB_KIND",
    "PROMISES",
    "T0",
    "Breach",
    "assert_dispatcher_contract",
    "find_breaches",
    "make_cluster",
    "make_lost_cluster",
    "make_queue",
    "make_sample_views",
    "make_unknown_cluster",
    "make_view",
    "make_workload",
]


def assert_dispatcher_contract(
    dispatcher: Dispatcher,
    *,
    views: Sequence[DispatchView] | None = None,
    order_matters: bool = False,
    budget: timedelta = BUDGET,
) -> None:
    """Check that a dispatcher is pure, deterministic, quick, and names only known clusters.

    A pure dispatcher does not change the view. It opens no files or connections, starts no
    programs, reads no clock or environment, and draws no random numbers. A manager's process
    limits do not let it read anything beyond the view.

    Args:
        dispatcher: The dispatcher.
        views: The views to ask about; `make_sample_views` by default.
        order_matters: Whether the order of the MultiKueueConfig may change its answer.
        budget: How long an answer may take.

    Raises:
        AssertionError: The text says which promises were broken, and on which view.
    """
    breaches = find_breaches(dispatcher, views=views, order_matters=order_matters, budget=budget)
    assert not breaches, "\n".join(f"{each.promise}: {each.words}" for each in breaches)
