"""The two environments of CEL: one checks expressions against types, one runs them.

The checker knows the types of a schema and of the libraries. What runs is compiled without them,
once per text, over plain values: converting objects to messages would cost more than evaluating.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import cel_expr_python.cel as cel  # noqa: PLR0402 - mypy finds it only so
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import DESCRIPTOR as DURATION_FILE
from google.protobuf.struct_pb2 import DESCRIPTOR as STRUCT_FILE
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

from multiqueue.lib.cel.functions import (
    COMPARISONS,
    FUNCTIONS,
    OPAQUE_TYPES,
    Opaque,
    Overload,
)

_LIBRARIES = ("strings", "optional", "sets", "two-var-comprehensions", "lists")
_KINDS = {
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "uint": cel.Type.UINT,
    "double": cel.Type.DOUBLE,
    "string": cel.Type.STRING,
    "bytes": cel.Type.BYTES,
    "duration": cel.Type.DURATION,
    "timestamp": cel.Type.TIMESTAMP,
}

Types = Mapping[str, str]
"""Types of variables by name, as CEL writes types."""


def standard_pool() -> DescriptorPool:
    """A new pool with the types that every expression may use.

    The types of the libraries are messages without fields. CEL has opaque types too, but takes
    overloads with one of them and any other type for the same.
    """
    opaque = FileDescriptorProto(name="kubernetes.proto", package="kubernetes", syntax="proto2")
    for each in OPAQUE_TYPES:
        opaque.message_type.add(name=each.name.removeprefix("kubernetes."))
    pool = DescriptorPool()
    for needed in (STRUCT_FILE, TIMESTAMP_FILE, DURATION_FILE):
        pool.AddSerializedFile(needed.serialized_pb)
    pool.AddSerializedFile(opaque.SerializeToString())
    return pool


def check_environment(variables: Types, pool: DescriptorPool, *, bindings: bool = False) -> cel.Env:
    """An environment that knows these variables; message types are looked up in the pool.

    ``bindings`` adds ``cel.bind``, which Kubernetes does not offer to authors of rules.
    """
    return cel.NewEnv(
        pool,
        config=_configuration((*_LIBRARIES, "bindings") if bindings else _LIBRARIES),
        variables={name: cel.Type(type_) for name, type_ in variables.items()},
        extensions=[_declared()],
    )


@lru_cache(maxsize=1)
def run_environment() -> cel.Env:
    """The environment that everything runs in. Variables need no types: nothing is checked."""
    return cel.NewEnv(
        config=_configuration((*_LIBRARIES, "bindings")), extensions=[_callable_extension()]
    )


def _configuration(libraries: tuple[str, ...]) -> cel.EnvConfig:
    named = ", ".join(f"{{name: {library}}}" for library in libraries)
    return cel.NewEnvConfigFromYaml(f"extensions: [{named}]")


def _declared() -> cel.CelExtension:
    functions = [
        cel.FunctionDecl(name, [_declaration(overload) for overload in overloads])
        for name, overloads in _by_name().items()
    ]
    functions += [
        cel.FunctionDecl(
            operator,
            [
                cel.Overload(id_, cel.Type.BOOL, [cel.Type(left), cel.Type(right)])
                for id_, left, right in overloads
            ],
        )
        for operator, overloads in COMPARISONS.items()
    ]
    return cel.CelExtension("kubernetes", functions)


def _declaration(overload: Overload) -> cel.Overload:
    params = [_checked_type(param) for param in overload.params]
    return cel.Overload(overload.id, _checked_type(overload.result), params, overload.member)


def _checked_type(param: str | Opaque) -> cel.Type:
    return cel.Type(param.name if isinstance(param, Opaque) else param)


def _by_name() -> dict[str, list[Overload]]:
    found: dict[str, list[Overload]] = {}
    for function in FUNCTIONS:
        found.setdefault(function.name, []).extend(function.overloads)
    return found


def _callable_extension() -> cel.CelExtension:
    return cel.CelExtension(
        "kubernetes",
        [
            cel.FunctionDecl(name, list(_run_overloads(name, overloads)))
            for name, overloads in _by_name().items()
        ],
    )


def _run_overloads(name: str, overloads: list[Overload]) -> Iterator[cel.Overload]:
    """At run time only kinds tell signatures apart; those of the same kinds share one entry."""
    groups: dict[tuple[bool, tuple[str, ...]], list[Overload]] = {}
    for overload in overloads:
        kinds = tuple(map(_kind, overload.params))
        groups.setdefault((overload.member, kinds), []).append(overload)
    for index, ((member, kinds), group) in enumerate(groups.items()):
        yield cel.Overload(
            f"run_{name}_{index}",
            cel.Type.DYN,
            [_run_type(kind) for kind in kinds],
            member,
            _call(name, tuple(group)),
        )


def _kind(param: str | Opaque) -> str:
    if isinstance(param, Opaque):
        return "map"
    if param.startswith("list<"):
        return "list"
    return param if param in _KINDS else "dyn"


def _run_type(kind: str) -> cel.Type:
    others = {"map": cel.Type.MAP, "list": cel.Type.LIST}
    return {**_KINDS, **others}.get(kind, cel.Type.DYN)


def _call(name: str, overloads: tuple[Overload, ...]) -> Callable[..., Any]:
    def call(*held: Any) -> Any:
        for overload in overloads:
            if overload.accepts(held):
                return overload.run(held)
        raise ValueError(f"no such overload: {name}")

    return call
