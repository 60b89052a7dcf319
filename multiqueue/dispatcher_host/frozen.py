"""Make views immutable before dispatchers get them.

Dataclasses of a view are frozen, but the mappings in them are plain dicts, and some of them belong
to informers. A plugin that changes labels would change what the whole manager sees. msgspec has no
immutable mapping: it builds plain dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from functools import cache
from operator import is_
from types import UnionType
from typing import Any, Never, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_PLAIN = (str, int, float, bool, bytes, type(None), frozenset)
_UNCHANGEABLE = (*_PLAIN, datetime, timedelta)


class FrozenDict(dict[Any, Any]):
    """A dict that refuses every change; a copy of it is a plain dict.

    `MappingProxyType` is not used: it can neither be copied nor written as JSON.
    """

    __slots__ = ()

    def _refuse(self, *_: object, **__: object) -> Never:
        raise TypeError("the view of a dispatcher cannot be changed; copy what you want to change")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[dict[Any, Any]], tuple[dict[Any, Any]]]:
        """Copy and pickle as a plain dict."""
        return dict, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        """Refuse, like a dict."""
        raise TypeError("unhashable type: 'FrozenDict'")


_EMPTY = FrozenDict()


def freeze(value: T) -> T:
    """Return an immutable copy of the value; parts that are already immutable are shared."""
    return _freeze(value)  # type: ignore[no-any-return]


def _freeze(value: Any) -> Any:
    """Freeze a value of unknown type."""
    if isinstance(value, (*_PLAIN, FrozenDict)):
        return value
    if isinstance(value, Mapping):
        return FrozenDict({key: _freeze(each) for key, each in value.items()})
    if isinstance(value, tuple):
        return _freeze_tuple(value, _freeze)
    if isinstance(value, list):  # only in arguments, which the dispatcher may change
        return [_freeze(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        own = _find_freezer(type(value))
        return own(value) if own is not None else value
    return value


Freezer = Callable[[Any], Any]


@cache
def _find_freezer(hint: Any) -> Freezer | None:
    """Return the function that freezes values of a type; None if they are immutable.

    Built once for each type: a view of a hundred workers has two thousand mappings.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType, tuple}:
        inner = {_find_freezer(part) for part in parts if part not in {Ellipsis, type(None)}}
        if inner == {None}:
            return None
        return _freezer_of_tuples(inner) if origin is tuple else _freezer_of_one(inner)
    if origin is frozenset or (isinstance(hint, type) and issubclass(hint, _UNCHANGEABLE)):
        return None
    if origin is Mapping:
        return _freezer_of_mappings(_find_freezer(parts[1]))
    if isinstance(hint, type) and is_dataclass(hint):
        return _freezer_of_dataclass(hint)
    return _freeze


def _freezer_of_one(inner: set[Freezer | None]) -> Freezer:
    own = _join(inner)
    return lambda value: value if value is None else own(value)


def _freezer_of_tuples(inner: set[Freezer | None]) -> Freezer:
    own = _join(inner)
    return lambda value: _freeze_tuple(value, own) if value else value


def _join(inner: set[Freezer | None]) -> Freezer:
    """Return the function that freezes values of any of these types."""
    (first, *others) = inner
    return _freeze if others or first is None else first


def _freeze_tuple(value: tuple[Any, ...], own: Freezer) -> tuple[Any, ...]:
    frozen = tuple(map(own, value))
    return value if all(map(is_, frozen, value)) else frozen


def _freezer_of_mappings(own: Freezer | None) -> Freezer:
    def freeze_mapping(value: Any) -> Any:
        if type(value) is FrozenDict:
            return value
        if not value:
            return _EMPTY
        if own is None:
            return FrozenDict(value)
        return FrozenDict({key: own(each) for key, each in value.items()})

    return freeze_mapping


def _freezer_of_dataclass(type_: type[Any]) -> Freezer | None:
    hints = get_type_hints(type_)
    names = [field.name for field in fields(type_)]
    changeable = [(name, own) for name in names if (own := _find_freezer(hints[name])) is not None]
    if not changeable:
        return None

    def freeze_dataclass(value: Any) -> Any:
        changed = {}
        for name, own in changeable:
            old = getattr(value, name)
            new = own(old)
            if new is not old:
                changed[name] = new
        if not changed:
            return value
        # As `dataclasses.replace` does, which takes four times as long.
        return type_(**{name: getattr(value, name) for name in names} | changed)

    return freeze_dataclass
