"""``-o jsonpath`` and ``-o custom-columns``: what kubectl prints for them, and what is refused."""

from __future__ import annotations

from typing import Any

import click
import pytest

from multiqueue.cli.output import OutputForm, print_data
from multiqueue.cli.templates import compile_columns, compile_template
from multiqueue.lib.jsonpath import JsonPathError

QUEUES: dict[str, Any] = {
    "kind": "ClusterQueueList",
    "items": [
        {
            "metadata": {"name": "research", "labels": {"a.b/c": "x"}},
            "spec": {"cohortName": "all"},
            "status": {
                "pendingWorkloads": 3,
                "conditions": [
                    {"type": "Odd", "status": "False"},
                    {"type": "Active", "status": "True"},
                ],
            },
        },
        {"metadata": {"name": "training"}, "status": {"pendingWorkloads": 0}},
    ],
}


@pytest.mark.parametrize(
    ("template", "want"),
    [
        ("{.kind}", "ClusterQueueList"),
        ("{.items[*].metadata.name}", "research training"),
        ("{.items[0].status.pendingWorkloads}", "3"),
        ("{$.items[-1].metadata.name}", "training"),
        ("{.items[0].metadata.labels}", '{"a.b/c":"x"}'),
        (r"{.items[0].metadata.labels.a\.b/c}", "x"),
        ("{.items[0].metadata.labels['a.b/c']}", "x"),
        (r"{.items[0].metadata.labels['a\.b/c']}", "x"),
        ('{.items[0].status.conditions[?(@.type=="Active")].status}', "True"),
        ("{.items[?(@.status.pendingWorkloads>0)].metadata.name}", "research"),
        ("{..cohortName}", "all"),
        ("{.nothing}", ""),
        ("{.kind}: {.items[0].metadata.name}!", "ClusterQueueList: research!"),
        (
            '{range .items[*]}{.metadata.name}{"\\t"}{.spec.cohortName}{"\\n"}{end}',
            "research\tall\ntraining\t\n",
        ),
        ("{range .items[*]}{@.metadata.name} {end}", "research training "),
        (
            "{range .items[*]}{range .status.conditions[*]}{.type},{end};{end}",
            "Odd,Active,;;",
        ),
        ("{'it\\'s'}{\"}\"}", "it's}"),
    ],
)
def test_a_template_prints_what_kubectl_prints(template: str, want: str) -> None:
    assert compile_template(template)(QUEUES) == want


@pytest.mark.parametrize(
    ("template", "want"),
    [
        (".metadata.name", "has no path in braces; write {.metadata.name}"),
        ("{.metadata.name", "a brace is not closed"),
        ("{metadata.name}", "begin it with a dot, as in .metadata.name"),
        ("{.items[0,1]}", 'unexpected "[0,1]"'),
        ("{range .items[*]}{.x}", "without {end}"),
        ("{end}", "{end} without {range ...}"),
        ("{.a}{'\\q'}", "is not understood"),
        ("{}", "is no path"),
        ("{range .items}{range}{end}", "is no path"),
    ],
)
def test_a_template_that_is_not_understood_is_refused(template: str, want: str) -> None:
    with pytest.raises(JsonPathError) as caught:
        compile_template(template)
    assert want in str(caught.value)


def test_columns_show_a_row_for_each_object(capsys: pytest.CaptureFixture[str]) -> None:
    columns = "NAME:.metadata.name,COHORT:spec.cohortName,TYPES:{.status.conditions[*].type}"
    print_data(QUEUES, f"custom-columns={columns}")
    assert capsys.readouterr().out.split("\n") == [
        "NAME       COHORT   TYPES",
        "research   all      Odd,Active",
        "training   <none>   <none>",
        "",
    ]


@pytest.mark.parametrize("columns", ["NAME", "NAME:", ":.metadata.name", "", "A:.a,", "A:.a[0,1]"])
def test_a_column_is_a_title_and_a_path(columns: str) -> None:
    with pytest.raises(JsonPathError):
        compile_columns(columns)


FORM = OutputForm("human", "json")


@pytest.mark.parametrize("form", ["human", "json", "jsonpath={.a}", "custom-columns=A:.a"])
def test_known_forms_are_taken(form: str) -> None:
    assert FORM.convert(form, None, None) == form
    assert FORM.convert("table", None, None) == "human"


@pytest.mark.parametrize(
    ("form", "want"),
    [
        ("go-template={{.kind}}", '"go-template" is not taken here; write jsonpath=TEMPLATE'),
        ("go-template-file=x", '"go-template-file" is not taken here; write jsonpath=TEMPLATE'),
        ("jsonpath-file=x", '"jsonpath-file" is not taken here'),
        ("jsonpath", '"jsonpath" is not taken here; write jsonpath=TEMPLATE'),
        ("wide", '"wide" is no form; there are human, json, jsonpath=TEMPLATE'),
        ("jsonpath=x", 'jsonpath: "x" has no path in braces'),
        ("custom-columns=x", 'custom-columns: "x" is no TITLE:PATH'),
    ],
)
def test_other_forms_are_refused_with_what_to_write(form: str, want: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        FORM.convert(form, None, None)
    assert want in caught.value.message
