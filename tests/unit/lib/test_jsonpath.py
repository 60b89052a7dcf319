"""JSONPath of printer columns."""

from typing import Any

import pytest

from multiqueue.lib.jsonpath import JsonPathError, compile_path

OBJECT: dict[str, Any] = {
    "spec": {"a": 1, "b.c": 2, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 5}], "none": None},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "Active", "status": "True"},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".spec.a", [1]),
        ("{.spec.a}", [1]),
        ("$.spec.a", [1]),
        (r".spec.b\.c", [2]),
        (".spec['b.c']", [2]),
        (".spec.list[0].n", ["x"]),
        (".spec.list[-1].n", ["y"]),
        (".spec.list[0:1].n", ["x"]),
        (".spec.list[*].n", ["x", "y"]),
        (".spec.list[5].n", []),
        (".spec.missing.deep", []),
        (".spec.none", [None]),
        ("..n", ["x", "y"]),
        ('.status.conditions[?(@.type=="Active")].status', ["True"]),
        (".status.conditions[?(@.type=='Active')].status", ["True"]),
        ('.status.conditions[?(@.type!="Active")].status', ["False"]),
        (".spec.list[?(@.v>1)].n", ["y"]),
        (".spec.list[?(@.v<=1)].n", ["x"]),
        (".spec.list[?(@.v)].n", ["x", "y"]),
        ('.spec.list[?(@.v>"a")].n', []),
    ],
)
def test_paths(path: str, want: list[Any]) -> None:
    assert compile_path(path)(OBJECT) == want


@pytest.mark.parametrize("path", [".a[", ".a[?(", ".a[?(@.b==x)]", ".a b", "{.a}{.b}"])
def test_other_texts_are_refused(path: str) -> None:
    with pytest.raises(JsonPathError):
        compile_path(path)
