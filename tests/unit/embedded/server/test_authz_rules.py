"""Rules: what they grant, what is missing of others, and how that is said."""

import pytest

from multiqueue.embedded.server.authz.attributes import Attributes, of_path, of_resource
from multiqueue.embedded.server.authz.rules import Rule, describe, find_missing
from multiqueue.embedded.server.routes import parse_route

PODS = Rule(("get",), ("",), ("pods",))
READ_PODS = Rule(("get", "list"), ("",), ("pods",))


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        ([READ_PODS], PODS, []),
        ([PODS], READ_PODS, [Rule(("list",), ("",), ("pods",))]),
        ([Rule(("*",), ("*",), ("*",))], READ_PODS, []),
        ([Rule(("get",), ("",), ("*/log",))], Rule(("get",), ("",), ("pods/log",)), []),
        ([PODS], Rule(("get",), ("",), ("pods",), ("a",)), []),
        ([Rule(("get",), ("",), ("pods",), ("a",))], PODS, [PODS]),
        ([Rule(("get",), paths=("/a/*",))], Rule(("get",), paths=("/a/b", "/a/*")), []),
        ([Rule(("get",), paths=("/a",))], Rule(("get",), paths=("/a/b",)),
         [Rule(("get",), paths=("/a/b",))]),
        ([PODS, Rule(("list",), ("",), ("pods",))], READ_PODS, []),
    ],
    ids=["less", "more", "everything", "one subresource of all", "one name of all",
         "all names of one", "below a path", "beside a path", "in parts"],
)  # fmt: skip
def test_who_holds_less_misses_the_rest(
    held: list[Rule], wanted: Rule, missing: list[Rule]
) -> None:
    assert find_missing(held, [wanted]) == missing


def test_missing_rules_are_told_by_what_they_are_about() -> None:
    rules = [
        Rule(("list",), ("",), ("pods",)),
        Rule(("get",), paths=("/metrics",)),
        Rule(("get",), ("",), ("pods",)),
        Rule(("get",), ("",), ("secrets",), ("a",)),
    ]
    assert describe(rules).splitlines() == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "get"]}',
        '{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}',
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
    ]


def wish(method: str, path: str, *, watch: bool = False, **query: str) -> Attributes:
    route = parse_route(path)
    assert route is not None
    return of_resource(method, route, query, watch=watch)


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (wish("HEAD", "/api/v1/nodes/a"), Attributes("get", "", "nodes", name="a")),
        (wish("OPTIONS", "/api/v1/nodes/a"), Attributes("", "", "nodes", name="a")),
        (wish("GET", "/api/v1/watch/pods"), Attributes("watch", "", "pods")),
        (wish("GET", "/api/v1/pods", watch=True), Attributes("watch", "", "pods")),
        (wish("GET", "/api/v1/pods/a", watch=True), Attributes("get", "", "pods", name="a")),
        (wish("GET", "/api/v1/nodes", fieldSelector="metadata.name=a,x=y"),
         Attributes("list", "", "nodes", name="a")),
        (wish("GET", "/api/v1/nodes", fieldSelector="metadata.name!=a"),
         Attributes("list", "", "nodes")),
        (wish("GET", "/api/v1/nodes", fieldSelector="metadata.name=.."),
         Attributes("list", "", "nodes")),
        (wish("GET", "/api/v1/nodes", fieldSelector="broken"), Attributes("list", "", "nodes")),
        (wish("DELETE", "/api/v1/nodes", fieldSelector="metadata.name=a"),
         Attributes("deletecollection", "", "nodes")),
        (wish("PUT", "/api/v1/namespaces/n/finalize"),
         Attributes("update", "", "namespaces", "finalize", "n", "n")),
        (of_path("POST", "/a"), Attributes("post", path="/a")),
    ],
    ids=["head", "another method", "an old watch", "a watch", "one object", "a selected name",
         "another name", "no name", "no selector", "a collection", "a namespace", "a path"],
)  # fmt: skip
def test_a_request_is_a_wish(got: Attributes, want: Attributes) -> None:
    assert got == want
