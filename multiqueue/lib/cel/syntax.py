"""The syntax tree of a checked expression.

The library keeps its tree to itself, but serializes it as the message cel.expr.CheckedExpr. Of
that only what is read here is described; the rest is skipped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_EXPR = "Expr"
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "CheckedExpr": {"expr": (4, _EXPR)},
    "Expr": {
        "const_expr": (3, "Constant"),
        "ident_expr": (4, "Ident"),
        "select_expr": (5, "Select"),
        "call_expr": (6, "Call"),
        "list_expr": (7, "CreateList"),
        "struct_expr": (8, "CreateStruct"),
        "comprehension_expr": (9, "Comprehension"),
    },
    "Constant": {"string_value": (6, "string")},
    "Ident": {"name": (1, "string")},
    "Select": {"operand": (1, _EXPR), "field": (2, "string"), "test_only": (3, "bool")},
    "Call": {"target": (1, _EXPR), "function": (2, "string"), "args": (3, "Expr*")},
    "CreateList": {"elements": (1, "Expr*")},
    "CreateStruct": {"entries": (2, "Entry*")},
    "Entry": {"map_key": (3, _EXPR), "value": (4, _EXPR)},
    "Comprehension": {
        "iter_var": (1, "string"),
        "iter_range": (2, _EXPR),
        "accu_var": (3, "string"),
        "accu_init": (4, _EXPR),
        "loop_condition": (5, _EXPR),
        "loop_step": (6, _EXPR),
        "result": (7, _EXPR),
        "iter_var2": (8, "string"),
    },
}
_TYPES = {"string": FieldDescriptorProto.TYPE_STRING, "bool": FieldDescriptorProto.TYPE_BOOL}


def _checked_expr_class() -> Any:
    file = FileDescriptorProto(name="cel.proto", package="cel.expr", syntax="proto2")
    for name, fields in _MESSAGES.items():
        _describe(file.message_type.add(name=name), fields)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("cel.expr.CheckedExpr"))


def _describe(message: DescriptorProto, fields: dict[str, tuple[int, str]]) -> None:
    for name, (number, type_) in fields.items():
        field = message.field.add(name=name, number=number)
        field.label = (
            FieldDescriptorProto.LABEL_REPEATED
            if type_.endswith("*")
            else FieldDescriptorProto.LABEL_OPTIONAL
        )
        if type_ in _TYPES:
            field.type = _TYPES[type_]
        else:
            field.type = FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = f".cel.expr.{type_.removesuffix('*')}"


_CheckedExpr = _checked_expr_class()


@dataclass(frozen=True, slots=True)
class CelNode:
    """One node of the tree."""

    message: Any
    """A cel.expr.Expr."""

    @property
    def kind(self) -> str:
        """Which field of the message says what this is; "" for one that is left out."""
        fields = self.message.ListFields()
        return str(fields[0][0].name) if fields else ""

    @property
    def name(self) -> str | None:
        """Of an identifier."""
        return self.message.ident_expr.name if self.kind == "ident_expr" else None

    @property
    def text(self) -> str | None:
        """Of a constant string."""
        if self.kind != "const_expr" or not self.message.const_expr.HasField("string_value"):
            return None
        return cast("str", self.message.const_expr.string_value)

    @property
    def function(self) -> str | None:
        """Of a call."""
        return self.message.call_expr.function if self.kind == "call_expr" else None

    def operands(self) -> list["CelNode"]:
        """Target and arguments of a call."""
        call = self.message.call_expr
        targets = [CelNode(call.target)] if call.HasField("target") else []
        return [*targets, *map(CelNode, call.args)]

    def children(self) -> Iterator["CelNode"]:
        """All expressions right below."""
        match self.kind:
            case "select_expr":
                yield CelNode(self.message.select_expr.operand)
            case "call_expr":
                yield from self.operands()
            case "list_expr":
                yield from map(CelNode, self.message.list_expr.elements)
            case "struct_expr":
                for entry in self.message.struct_expr.entries:
                    yield CelNode(entry.map_key)
                    yield CelNode(entry.value)
            case "comprehension_expr":
                loop = self.message.comprehension_expr
                for part in ("iter_range", "accu_init", "loop_condition", "loop_step", "result"):
                    yield CelNode(getattr(loop, part))

    def walk(self) -> Iterator["CelNode"]:
        """This and everything below."""
        yield self
        for child in self.children():
            yield from child.walk()


def read_tree(serialized: bytes) -> CelNode:
    """The tree of an ``Expression.serialize()``."""
    message = AnyMessage.FromString(serialized)
    return CelNode(_CheckedExpr.FromString(message.value).expr)
