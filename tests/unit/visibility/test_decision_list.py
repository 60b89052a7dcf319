"""The last decisions as kubectl gets them."""

from __future__ import annotations

from dataclasses import replace

import orjson

from multiqueue.plugins import Nomination
from multiqueue.plugins.recording import Decision, load
from multiqueue.plugins.testing import T0, make_cluster, make_view
from multiqueue.visibility.decision_list import build_table, write_list

VIEW = make_view(clusters=[make_cluster("a"), make_cluster("b")])
DECISION = Decision(dispatcher="x", view=VIEW, nomination=Nomination(clusters=("a", "b")))


def test_a_list_has_the_same_objects_as_one_decision_alone():
    told = orjson.loads(b"".join(write_list([DECISION, DECISION], "g/v1")))
    assert (told["kind"], told["apiVersion"], len(told["items"])) == (
        "DispatchDecisionList",
        "g/v1",
        2,
    )
    item = told["items"][1]
    assert (item["kind"], item["metadata"]) == (
        "DispatchDecision",
        {"name": "train", "namespace": "team-a"},
    )
    assert load(Decision, item["status"]) == DECISION
    assert orjson.loads(b"".join(write_list([], "g/v1")))["items"] == []


def test_a_table_says_where_each_was_offered_or_why_nowhere():
    answers = (
        DECISION,
        replace(DECISION, profile="gpu", nomination=Nomination()),
        replace(DECISION, nomination=Nomination(refusal="too large")),
        replace(DECISION, nomination=Nomination(external=True)),
        replace(DECISION, nomination=None, problem="it hung"),
    )
    table = build_table(answers, "v1")
    assert table["apiVersion"] == "meta.k8s.io/v1"
    assert len(table["columnDefinitions"]) == len(table["rows"][0]["cells"])
    assert table["rows"][1]["cells"] == ["train", "team-a", "x", "gpu", "nowhere", T0.isoformat()]
    assert [row["cells"][4] for row in table["rows"]] == [
        "a,b",
        "nowhere",
        "rejected: too large",
        "left to a controller",
        "not decided: it hung",
    ]
