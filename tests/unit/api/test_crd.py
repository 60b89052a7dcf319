from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from multiqueue.api.crd import load_crds
from multiqueue.api.crd.__main__ import render, write
from multiqueue.api.crd.schema import walk
from multiqueue.api.names import GROUP

ALL_CRDS = load_crds()
CRDS = {crd["spec"]["names"]["kind"]: crd for crd in ALL_CRDS if crd["spec"]["group"] == GROUP}
DIRECTORY = Path(__file__).parents[3] / "config" / "crd"


def schema(kind: str, version: str = "v1beta2") -> dict:
    versions = {v["name"]: v for v in CRDS[kind]["spec"]["versions"]}
    return versions[version]["schema"]["openAPIV3Schema"]


def field(kind: str, *path: str, version: str = "v1beta2") -> dict:
    result = schema(kind, version)
    for name in path:
        result = result.get("items", result)["properties"][name]
    return result


ALL = [(crd, version) for crd in ALL_CRDS for version in crd["spec"]["versions"]]


@pytest.mark.parametrize(("crd", "version"), ALL)
def test_schemas_are_structural_and_described(crd: dict, version: dict) -> None:
    for part in walk(version["schema"]["openAPIV3Schema"]):
        assert not [k for k in part if k.startswith("x-") and not k.startswith("x-kubernetes-")]
        assert (
            "type" in part
            or part.get("x-kubernetes-int-or-string")
            or part.get("x-kubernetes-preserve-unknown-fields")
        )
        assert "$ref" not in part
        if "pattern" in part:
            re.compile(part["pattern"])
        if part.get("x-kubernetes-list-type") == "map":
            keys = set(part["x-kubernetes-list-map-keys"])
            item = part["items"]
            with_default = {k for k, v in item["properties"].items() if "default" in v}
            assert keys <= set(item.get("required", ())) | with_default
    assert len([v for v in crd["spec"]["versions"] if v["storage"]]) == 1


@pytest.mark.parametrize(("crd", "version"), ALL)
def test_defaults_are_allowed_by_their_enums(crd: dict, version: dict) -> None:
    for part in walk(version["schema"]["openAPIV3Schema"]):
        if "default" in part and "enum" in part:
            assert part["default"] in part["enum"]


@pytest.mark.parametrize(("crd", "version"), ALL)
def test_fields_of_our_own_have_texts(crd: dict, version: dict) -> None:
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    for name in {"spec", "status"} & set(properties):
        for each, part in properties[name]["properties"].items():
            assert part.get("description"), f"{crd['metadata']['name']} {name}.{each}"


def test_v1beta1_is_deprecated_with_a_warning() -> None:
    for crd in CRDS.values():
        v1beta1, v1beta2 = crd["spec"]["versions"]
        assert v1beta1["deprecated"]
        assert "use kueue.x-k8s.io/v1beta2" in v1beta1["deprecationWarning"]
        assert v1beta2["storage"]
        assert not v1beta1["storage"]


def test_the_files_are_fresh() -> None:
    for crd in ALL_CRDS:
        path = DIRECTORY / f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"
        assert path.read_text(encoding="utf-8") == render(crd), "run make crds"


def test_writing_removes_files_of_kinds_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "kueue.x-k8s.io_old.yaml").write_text("x")
    write(tmp_path)
    assert len(list(tmp_path.iterdir())) == len(ALL_CRDS)
    assert yaml.safe_load((tmp_path / "kueue.x-k8s.io_cohorts.yaml").read_text()) == CRDS["Cohort"]


def test_a_definition_fits_the_annotation_of_kubectl_apply() -> None:
    for crd in ALL_CRDS:
        assert len(yaml.safe_dump(crd)) < 256 * 1024


def test_names_and_columns_of_upstream() -> None:
    names = CRDS["Workload"]["spec"]["names"]
    assert names["shortNames"] == ["kwl", "kueueworkload", "kueueworkloads"]
    columns = CRDS["Workload"]["spec"]["versions"][1]["additionalPrinterColumns"]
    assert [c["name"] for c in columns] == ["Queue", "Reserved in", "Admitted", "Finished", "Age"]
    selectable = CRDS["Workload"]["spec"]["versions"][1]["selectableFields"]
    assert selectable == [{"jsonPath": ".status.admission.clusterQueue"}]
    assert CRDS["ClusterQueue"]["spec"]["scope"] == "Cluster"
    assert CRDS["LocalQueue"]["spec"]["scope"] == "Namespaced"


def test_only_kinds_with_observed_state_have_a_status() -> None:
    with_status = {k for k, c in CRDS.items() if "subresources" in c["spec"]["versions"][1]}
    assert with_status == {
        "AdmissionCheck",
        "ClusterQueue",
        "Cohort",
        "LocalQueue",
        "MultiKueueCluster",
        "Workload",
    }


def test_limits_of_the_inventory() -> None:
    assert field("Workload", "spec", "podSets")["maxItems"] == 18
    assert field("Workload", "status", "nominatedClusterNames")["maxItems"] == 20
    assert field("ClusterQueue", "spec", "resourceGroups")["maxItems"] == 16
    assert field("MultiKueueConfig", "spec", "clusters")["maxItems"] == 20
    assert field("WorkloadPriorityClass", "description")["maxLength"] == 2048
    assert schema("WorkloadPriorityClass")["required"] == ["value"]
    assert field("Workload", "spec")["x-kubernetes-validations"]


def test_v1beta1_differs_where_the_inventory_says() -> None:
    old = field("Workload", "spec", version="v1beta1")["properties"]
    assert {"priorityClassName", "priorityClassSource"} <= set(old)
    assert not {"priorityClassRef", "preemptionGates"} & set(old)
    assert "cohort" in field("ClusterQueue", "spec", version="v1beta1")["properties"]
    borrow = field("ClusterQueue", "spec", "flavorFungibility", "whenCanBorrow", version="v1beta1")
    assert "Borrow" in borrow["enum"]
    assert "kubeConfig" in field("MultiKueueCluster", "spec", version="v1beta1")["properties"]
    clusters = field("MultiKueueConfig", "spec", "clusters", version="v1beta1")
    assert clusters["x-kubernetes-list-type"] == "set"
