"""Which parts of a value an expression reads, so that nothing else needs to be converted.

A mask is a tree: None for everything, or by property what is read of it; "*" stands for the items
of a list and the values of a map. An empty one says that only the presence matters.
"""

from collections.abc import Mapping
from typing import Any

from multiqueue.lib.cel.syntax import CelNode

Mask = dict[str, Any] | None
Path = tuple[str, ...]

ITEMS = "*"
_SIZE = "size"


class Reads:
    """What expressions read of some variables; add all, then take the masks."""

    def __init__(self) -> None:
        self._everything: set[Path] = set()
        self._masks: dict[str, Any] = {}

    def add(self, tree: CelNode, roots: Mapping[str, Path]) -> None:
        """Add an expression; ``roots`` gives the names of variables their places."""
        self._visit(tree, dict(roots))

    def mask(self, root: str) -> Mask:
        """What is read of a variable."""
        return self._pruned((root,), self._masks.get(root, {}))

    def _pruned(self, path: Path, tree: dict[str, Any]) -> Mask:
        if path in self._everything:
            return None
        return {name: self._pruned((*path, name), sub) for name, sub in tree.items()}

    def _mark(self, path: Path, *, everything: bool) -> None:
        tree = self._masks
        for name in path:
            tree = tree.setdefault(name, {})
        if everything:
            self._everything.add(path)

    def _resolve(self, node: CelNode, scope: Mapping[str, Path | None]) -> Path | None:
        """The place that an expression names; None: it is not the name of a place."""
        match node.kind:
            case "ident_expr":
                return scope.get(node.name or "")
            case "select_expr" if not node.message.select_expr.test_only:
                base = self._resolve(CelNode(node.message.select_expr.operand), scope)
                return None if base is None else (*base, node.message.select_expr.field)
            case "call_expr" if node.function == "_?._":
                operand, field = node.operands()
                base = self._resolve(operand, scope)
                return None if base is None or field.text is None else (*base, field.text)
            case "call_expr" if node.function == "_[_]":
                base = self._resolve(node.operands()[0], scope)
                return None if base is None else (*base, ITEMS)
        return None

    def _visit(self, node: CelNode, scope: Mapping[str, Path | None]) -> None:
        path = self._resolve(node, scope)
        if path is not None:
            self._mark(path, everything=True)
            self._visit_indexes(node, scope)
        elif node.kind == "select_expr" and node.message.select_expr.test_only:
            self._visit_presence(node, scope)
        elif node.function == _SIZE and (of := self._resolve(node.operands()[0], scope)):
            self._mark((*of, ITEMS), everything=False)
            self._visit_indexes(node.operands()[0], scope)
        elif node.kind == "comprehension_expr":
            self._visit_loop(node, scope)
        else:
            for child in node.children():
                self._visit(child, scope)

    def _visit_presence(self, node: CelNode, scope: Mapping[str, Path | None]) -> None:
        select = node.message.select_expr
        base = self._resolve(CelNode(select.operand), scope)
        if base is None:
            self._visit(CelNode(select.operand), scope)
            return
        self._mark((*base, select.field), everything=False)
        self._visit_indexes(CelNode(select.operand), scope)

    def _visit_indexes(self, node: CelNode, scope: Mapping[str, Path | None]) -> None:
        """What is read to compute the indexes in the name of a place."""
        if node.function == "_[_]":
            self._visit(node.operands()[1], scope)
        for child in node.children():
            if self._resolve(child, scope) is not None:
                self._visit_indexes(child, scope)

    def _visit_loop(self, node: CelNode, scope: Mapping[str, Path | None]) -> None:
        loop = node.message.comprehension_expr
        path = self._resolve(CelNode(loop.iter_range), scope)
        inner = {**scope, loop.accu_var: None, loop.iter_var: None}
        if path is None:
            self._visit(CelNode(loop.iter_range), scope)
        else:
            self._mark((*path, ITEMS), everything=False)
            self._visit_indexes(CelNode(loop.iter_range), scope)
            inner[loop.iter_var2 or loop.iter_var] = (*path, ITEMS)
        self._visit(CelNode(loop.accu_init), scope)
        for part in (loop.loop_condition, loop.loop_step, loop.result):
            self._visit(CelNode(part), inner)
