"""Change the usage of a quota tree to try something, and restore it afterwards. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from multiqueue.engine.cache.quota_node import QuotaNode
from multiqueue.engine.cache.tree import Tree


@contextmanager
def rolled_back(tree: Tree) -> Iterator[Callable[[], None]]:
    """Allow changes of usage in the block; they are undone at its end, or by the yielded call."""
    nodes = [*tree.cohorts.values(), *(queue.node for queue in tree.queues.values())]
    before = [(node, tuple(node.usage)) for node in nodes]

    def wipe() -> None:
        for node, usage in before:
            _restore(node, usage)

    try:
        yield wipe
    finally:
        wipe()


def _restore(node: QuotaNode, usage: tuple[int, ...]) -> None:
    node.usage[: len(usage)] = usage
    node.usage[len(usage) :] = [0] * (len(node.usage) - len(usage))
    node.ratio = None
