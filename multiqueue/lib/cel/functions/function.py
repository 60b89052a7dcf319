"""What a function of a library is: declared to the checker, called at run time.

The library hands no values of foreign types through Python. At run time a quantity is therefore a
map with one entry, its type and its canonical text, so that ``==`` holds for equal ones; the
checker knows it as a type of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """A type that only functions can look into."""

    name: str
    """As the checker names it: ``kubernetes.`` and a word."""
    read: Callable[[str], Any]
    """From the canonical text."""
    write: Callable[[Any], str]
    """To the canonical text."""

    def wrap(self, value: Any) -> dict[str, str]:
        """A value as CEL holds it."""
        return {self.name: self.write(value)}

    def unwrap(self, held: Mapping[str, str]) -> Any:
        """Back."""
        return self.read(held[self.name])

    def holds(self, held: Any) -> bool:
        """Whether that is one of these."""
        return isinstance(held, Mapping) and tuple(held) == (self.name,)


Param = str | Opaque
"""A type as CEL writes it, or an opaque one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """One signature of a function."""

    id: str
    params: tuple[Param, ...]
    result: Param
    call: Callable[..., Any]
    """Raises ValueError: an error of the evaluation."""
    member: bool = False

    def accepts(self, held: tuple[Any, ...]) -> bool:
        """Whether values of the right kinds are of the right opaque types too."""
        return all(
            param.holds(value)
            for param, value in zip(self.params, held, strict=True)
            if isinstance(param, Opaque)
        )

    def run(self, held: tuple[Any, ...]) -> Any:
        """Call with values as CEL holds them."""
        values = (
            param.unwrap(value) if isinstance(param, Opaque) else value
            for param, value in zip(self.params, held, strict=True)
        )
        result = self.call(*values)
        return self.result.wrap(result) if isinstance(self.result, Opaque) else result


@dataclass(frozen=True, slots=True)
class Function:
    """A name and its signatures."""

    name: str
    overloads: tuple[Overload, ...]


def function(name: str, *overloads: Overload) -> Function:
    """A function with these signatures."""
    return Function(name, overloads)


def method(
    name: str, id_: str, params: tuple[Param, ...], result: Param, call: Callable[..., Any]
) -> Function:
    """A function with one signature, called on its first parameter."""
    overload = Overload(id=id_, params=params, result=result, call=call, member=True)
    return Function(name, (overload,))


def plain(
    name: str, id_: str, params: tuple[Param, ...], result: Param, call: Callable[..., Any]
) -> Function:
    """A function with one signature, called by its name."""
    return Function(name, (Overload(id=id_, params=params, result=result, call=call),))
