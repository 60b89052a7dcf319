"""Texts: what a regular expression finds in them.

The expressions are those of RE2, as everywhere in CEL: they are looked for by CEL itself.
"""

import re
from typing import cast

import cel_expr_python.cel as cel  # noqa: PLR0402 - mypy finds it only so

from multiqueue.lib.cel.functions.function import Function, Overload

_env = cel.NewEnv(
    config=cel.NewEnvConfigFromYaml("extensions: [{name: optional}, {name: regex}]"),
    variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING, "none": cel.Type.STRING},
)
_FIRST = _env.compile("regex.extract(text, pattern).orValue('')")
_ALL = _env.compile("regex.extractAll(text, pattern)")
_GROUP = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\((?!\?)|\(\?P?<\w+>", re.DOTALL)


def _without_groups(pattern: str) -> str:
    """The same pattern without capturing groups: the whole match is wanted, not a part."""
    return _GROUP.sub(lambda found: "(?:" if found[0].startswith("(") else found[0], pattern)


def _run(program: cel.Expression, text: str, pattern: str) -> cel.Value:
    result = program.eval(data={"text": text, "pattern": _without_groups(pattern)})
    if result.type() == cel.Type.ERROR:
        raise ValueError(str(result.value()))
    return result


def _find(text: str, pattern: str) -> str:
    return str(_run(_FIRST, text, pattern).plain_value())


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = cast("list[str]", _run(_ALL, text, pattern).plain_value())
    return found if limit < 0 else found[:limit]


TEXTS = (
    Function(
        "find",
        (
            Overload(
                id="string_find_string",
                params=("string", "string"),
                result="string",
                member=True,
                call=_find,
            ),
        ),
    ),
    Function(
        "findAll",
        (
            Overload(
                id="string_find_all_string",
                params=("string", "string"),
                result="list<string>",
                member=True,
                call=_find_all,
            ),
            Overload(
                id="string_find_all_string_int",
                params=("string", "string", "int"),
                result="list<string>",
                member=True,
                call=_find_all,
            ),
        ),
    ),
)
