"""Tables: columns, cells, rows."""

from datetime import timedelta
from typing import Any

import pytest

from multiqueue.embedded.server.custom import printer_column
from multiqueue.embedded.server.kinds import PrinterColumn
from multiqueue.embedded.server.table import render
from tests.unit.embedded.server.kind_builders import (
    BUILTIN,
    T0,
    created,
    custom_kind,
    job,
    kind_of,
    pod,
)

NOW = T0 + timedelta(minutes=5)


def cells(group: str, plural: str, obj: dict[str, Any], *, wide: bool = False) -> dict[str, Any]:
    """What kubectl would show of an object, by column."""
    kind = kind_of(group, plural)
    table = render(kind.versions[0], [obj], now=NOW)
    return {
        column["name"]: cell
        for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
        if wide or column["priority"] == 0
    }


def named(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}, **more}


def custom(*columns: PrinterColumn, **obj: Any) -> dict[str, Any]:
    kind = custom_kind({"type": "object"}, columns=columns)
    return render(kind.versions[0], [named(**obj)], now=NOW)


def test_without_columns_there_are_name_and_age() -> None:
    table = custom()
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]
    assert table["columnDefinitions"][0]["format"] == "name"
    assert table["rows"][0]["cells"] == ["a", "5m"]


@pytest.mark.parametrize(
    ("kind", "value", "want"),
    [
        ("string", "x", "x"),
        ("string", 3, "3"),
        ("string", True, "true"),
        ("string", {"a": [1]}, '{"a":[1]}'),
        ("integer", 3, 3),
        ("integer", 3.0, 3),
        ("integer", "x", None),
        ("integer", True, None),
        ("number", 1.5, 1.5),
        ("boolean", True, True),
        ("boolean", "x", None),
        ("date", "2026-01-01T00:00:00Z", "5m"),
        ("date", "soon", "<invalid>"),
        ("string", None, None),
    ],
)
def test_cells_follow_the_type_of_the_column(kind: str, value: Any, want: Any) -> None:
    column = printer_column({"name": "X", "type": kind, "jsonPath": ".spec.x"})
    assert custom(column, spec={"x": value})["rows"][0]["cells"] == ["a", want]


def test_columns_find_conditions() -> None:
    path = '.status.conditions[?(@.type=="Active")].status'
    column = printer_column({"name": "Active", "type": "string", "jsonPath": path})
    status = {
        "conditions": [{"type": "Other", "status": "x"}, {"type": "Active", "status": "True"}]
    }
    assert custom(column, status=status)["rows"][0]["cells"] == ["a", "True"]
    assert custom(column)["rows"][0]["cells"] == ["a", None]


@pytest.mark.parametrize(
    ("include", "kind"),
    [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Widget")],
)
def test_rows_carry_what_is_asked_for(include: Any, kind: str | None) -> None:
    widget = custom_kind({"type": "object"})
    obj = named(kind="Widget", spec={})
    row = render(widget.versions[0], [obj], now=NOW, include_object=include)["rows"][0]
    assert row.get("object", {}).get("kind") == kind
    assert ("spec" in row.get("object", {})) is (include == "Object")


def test_list_metadata_is_that_of_the_list() -> None:
    kind = custom_kind({"type": "object"})
    obj = {"metadata": {"name": "a", "resourceVersion": "7"}}
    version = kind.versions[0]
    assert render(version, [obj], now=NOW)["metadata"] == {"resourceVersion": "7"}
    page = {"resourceVersion": "9", "continue": "x"}
    assert render(version, [obj], now=NOW, list_metadata=page)["metadata"] == page


def test_later_watch_frames_leave_the_columns_out() -> None:
    kind = custom_kind({"type": "object"})
    table = render(kind.versions[0], [named()], now=NOW, with_columns=False)
    assert table["columnDefinitions"] == []
    assert table["rows"][0]["cells"] == ["a", "5m"]


def test_every_built_in_kind_has_a_table() -> None:
    for kind in BUILTIN:
        table = render(kind.versions[0], [named()], now=NOW)
        assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])


def test_nonsense_in_a_status_spoils_one_cell_only() -> None:
    obj = created("batch", "jobs", job())
    obj["status"] = {"conditions": "nonsense", "startTime": "soon"}
    got = cells("batch", "jobs", obj)
    assert (got["Name"], got["Status"], got["Duration"]) == ("a", "<invalid>", "<invalid>")


def job_with(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    obj = created("batch", "jobs", job(**spec))
    obj["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return {**obj, "status": status}


def conditions(*names: str) -> list[dict[str, str]]:
    return [{"type": name, "status": "True"} for name in names]


START = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (job_with({}), ("Running", "0/1", "", "5m")),
        (job_with({"conditions": conditions("Suspended")}), ("Suspended", "0/1", "", "5m")),
        (
            job_with({"startTime": START, "succeeded": 1}, completions=3),
            ("Running", "1/3", "5m", "5m"),
        ),
        (
            job_with(
                {
                    "startTime": START,
                    "completionTime": "2026-01-01T00:01:30Z",
                    "succeeded": 1,
                    "conditions": conditions("SuccessCriteriaMet", "Complete"),
                }
            ),
            ("Complete", "1/1", "90s", "5m"),
        ),
        (
            job_with({"conditions": conditions("FailureTarget", "Failed")}, parallelism=2),
            ("Failed", "0/1 of 2", "", "5m"),
        ),
    ],
    ids=["new", "suspended", "running", "complete", "failed"],
)
def test_jobs(obj: dict, want: tuple) -> None:
    got = cells("batch", "jobs", obj)
    assert (got["Status"], got["Completions"], got["Duration"], got["Age"]) == want


def running(*, ready: bool = True, restarts: int = 0) -> dict[str, Any]:
    return {"ready": ready, "restartCount": restarts, "state": {"running": {}}}


def ended(reason: str = "", code: int = 0) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, **({"reason": reason} if reason else {})}}
    return {"ready": False, "restartCount": 0, "state": state}


def waiting(reason: str) -> dict[str, Any]:
    return {"ready": False, "restartCount": 2, "state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({"phase": "Pending"}, ("0/1", "Pending", "0")),
        (
            {"phase": "Running", "containerStatuses": [running(restarts=1)]},
            ("1/1", "Running", "1"),
        ),
        (
            {"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]},
            ("0/1", "CrashLoopBackOff", "2"),
        ),
        (
            {"phase": "Succeeded", "containerStatuses": [ended("Completed")]},
            ("0/1", "Completed", "0"),
        ),
        ({"phase": "Failed", "containerStatuses": [ended(code=3)]}, ("0/1", "ExitCode:3", "0")),
        ({"phase": "Failed", "reason": "Evicted"}, ("0/1", "Evicted", "0")),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
            },
            ("0/1", "SchedulingGated", "0"),
        ),
    ],
    ids=[
        "pending", "running", "crashing", "completed", "failed", "evicted", "gated",
    ],
)  # fmt: skip
def test_pods(status: dict, want: tuple) -> None:
    got = cells("", "pods", {**created("", "pods", pod()), "status": status})
    assert (got["Ready"], got["Status"], got["Restarts"]) == want


def test_a_pod_that_is_going_says_so_until_it_has_ended() -> None:
    obj = created("", "pods", pod())
    obj["metadata"]["deletionTimestamp"] = START
    assert cells("", "pods", obj)["Status"] == "Terminating"
    assert cells("", "pods", {**obj, "status": {"phase": "Failed"}})["Status"] == "Failed"


def test_wide_pods_show_where_they_are() -> None:
    obj = {**created("", "pods", pod(nodeName="n1")), "status": {"podIP": "10.0.0.1"}}
    got = cells("", "pods", obj, wide=True)
    assert (got["Node"], got["IP"], got["Nominated Node"]) == ("n1", "10.0.0.1", "<none>")
    assert "Node" not in cells("", "pods", obj)


@pytest.mark.parametrize(
    ("ready", "unschedulable", "want"),
    [
        ("True", False, "Ready"),
        ("False", False, "NotReady"),
        ("Unknown", False, "NotReady"),
        ("True", True, "Ready,SchedulingDisabled"),
    ],
)
def test_nodes(ready: str, unschedulable: bool, want: str) -> None:
    node = named(
        spec={"unschedulable": unschedulable},
        status={"conditions": [{"type": "Ready", "status": ready}]},
    )
    node["metadata"]["labels"] = {"node-role.kubernetes.io/worker": ""}
    got = cells("", "nodes", node)
    assert (got["Status"], got["Roles"]) == (want, "worker")


def test_events_begin_with_when() -> None:
    event = named(
        involvedObject={"kind": "Pod", "name": "p"},
        lastTimestamp="2026-01-01T00:04:00Z",
        type="Normal",
        reason="Started",
        message="it runs\n",
        count=4,
    )
    assert list(cells("", "events", event).values()) == [
        "60s",
        "Normal",
        "Started",
        "pod/p",
        "it runs",
    ]
    assert cells("", "events", event, wide=True)["Count"] == 4


@pytest.mark.parametrize(
    ("group", "plural", "obj", "want"),
    [
        ("", "namespaces", named(status={"phase": "Active"}), {"Status": "Active"}),
        ("", "secrets", named(type="Opaque", data={"a": ""}), {"Type": "Opaque", "Data": 1}),
        ("", "configmaps", named(data={"a": ""}, binaryData={"b": ""}), {"Data": 2}),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            named(value=5),
            {"Value": 5, "Global-Default": False},
        ),
        ("coordination.k8s.io", "leases", named(spec={"holderIdentity": "me"}), {"Holder": "me"}),
        (
            "",
            "services",
            named(spec={"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}),
            {"Type": "ClusterIP", "Port(s)": "80/TCP", "Cluster-IP": "<none>"},
        ),
        (
            "apps",
            "deployments",
            named(spec={"replicas": 3}, status={"readyReplicas": 1}),
            {"Ready": "1/3", "Up-to-date": 0},
        ),
        (
            "",
            "resourcequotas",
            named(spec={"hard": {"cpu": "4", "limits.cpu": "8"}}, status={"used": {"cpu": "1"}}),
            {"Request": "cpu: 1/4", "Limit": "limits.cpu: 0/8"},
        ),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            named(roleRef={"kind": "Role", "name": "r"}, subjects=[]),
            {"Role": "Role/r"},
        ),
        (
            "policy",
            "poddisruptionbudgets",
            named(spec={"minAvailable": 1}),
            {"Min Available": "1", "Max Unavailable": "N/A"},
        ),
        (
            "batch",
            "cronjobs",
            named(spec={"schedule": "* * * * *", "suspend": True}),
            {"Suspend": "True", "Last Schedule": "<none>", "Timezone": "<none>"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value else "",
)
def test_other_kinds(group: str, plural: str, obj: dict, want: dict) -> None:
    got = cells(group, plural, obj)
    assert {name: got[name] for name in want} == want
