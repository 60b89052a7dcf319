"""Views as dispatchers get them: what is inside cannot be changed.

Dataclasses of a view are frozen, but the mappings in them are plain dicts, some of them those of
the informers: a plugin that tidied up labels would change what the whole manager sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from types import UnionType
from typing import Any, Never, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_PLAIN = (str, int, float, bool, bytes, type(None), frozenset)
_UNCHANGEABLE = (*_PLAIN, datetime, timedelta)


class FrozenDict(dict[Any, Any]):
    """A dict that says no to every change; a copy of it is a plain one again.

    No `MappingProxyType`: those can neither be copied nor written as JSON.
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
        """Refuse, as a dict does."""
        raise TypeError("unhashable type: 'FrozenDict'")


def freeze(value: T) -> T:
    """Return the value with all that can be changed in it replaced; what cannot is shared."""
    return _freeze(value)  # type: ignore[no-any-return]


def _freeze(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, FrozenDict):
        return value
    if isinstance(value, Mapping):
        return FrozenDict({key: _freeze(each) for key, each in value.items()})
    if isinstance(value, tuple):
        frozen = tuple(map(_freeze, value))
        return value if all(a is b for a, b in zip(frozen, value, strict=True)) else frozen
    if isinstance(value, list):  # only in arguments, and theirs to change
        return [_freeze(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for name in _list_changeable(type(value)):
            old = getattr(value, name)
            new = _freeze(old)
            if new is not old:
                changed[name] = new
        return replace(value, **changed) if changed else value
    return value


@lru_cache(maxsize=256)
def _list_changeable(type_: type[Any]) -> tuple[str, ...]:
    """Names of the fields that may hold something that can be changed."""
    hints = get_type_hints(type_)
    return tuple(field.name for field in fields(type_) if _is_changeable(hints[field.name]))


def _is_changeable(hint: Any) -> bool:
    parts = get_args(hint)
    if get_origin(hint) in {Union, UnionType, tuple}:
        return any(_is_changeable(part) for part in parts if part is not Ellipsis)
    if isinstance(hint, type) and is_dataclass(hint):
        return bool(_list_changeable(hint))
    return not (isinstance(hint, type) and issubclass(hint, _UNCHANGEABLE)) and (
        get_origin(hint) is not frozenset
    )
