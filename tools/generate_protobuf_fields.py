"""Write the protobuf field numbers of the built-in kinds to multiqueue/embedded/server/protobuf.

Numbers, wire names and which fields are optional are read from the struct tags of Kubernetes' Go
types (the ``.proto`` files, made from them, do not tell which fields are inline in JSON, nor which
may be absent). Nothing but names and numbers is taken over. Run from the repository's root, with
the directories of three modules as ``go mod download -json`` names them:

    .venv/bin/python tools/generate_protobuf_fields.py \
        <k8s.io/api> <k8s.io/apimachinery> <k8s.io/kube-aggregator>
"""

import json
import re
import sys
from pathlib import Path

TARGET = (
    Path(__file__).parent.parent / "multiqueue" / "embedded" / "server" / "protobuf" / "fields.json"
)

GROUPS = {
    "core": "",
    "apps": "apps",
    "batch": "batch",
    "autoscaling": "autoscaling",
    "authentication": "authentication.k8s.io",
    "authorization": "authorization.k8s.io",
    "coordination": "coordination.k8s.io",
    "scheduling": "scheduling.k8s.io",
    "node": "node.k8s.io",
    "policy": "policy",
    "rbac": "rbac.authorization.k8s.io",
    "admissionregistration": "admissionregistration.k8s.io",
}
META, AGGREGATION = "meta", "apiregistration"

TYPE = re.compile(r"^type (\w+) (struct \{|.+)$")
FIELD = re.compile(r'^\s*(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)"[^`]* protobuf:"([^"]*)"')
IMPORT = re.compile(r'^(?:import )?\s*(?:(\w+) )?"k8s\.io/(api|apimachinery)/(\S+)"')
KNOWN = {
    "string": "string",
    "bool": "boolean",
    "int32": "int32",
    "int64": "int64",
    "float64": "double",
    "[]byte": "bytes",
    "types.UID": "string",
    "types.NodeName": "string",
    "resource.Quantity": "quantity",
    "intstr.IntOrString": "intOrString",
    "runtime.RawExtension": "raw",
    "metav1.Time": "time",
    "metav1.MicroTime": "microTime",
    "metav1.FieldsV1": "raw",
    "Time": "time",
    "FieldsV1": "raw",
}
SCALARS = {"string", "boolean", "int32", "int64", "double"}

Declarations = dict[str, str]
"""From a type's name to its Go expression; "struct" for structs."""


class Package:
    """The types of one Go package."""

    def __init__(self, name: str, file: Path) -> None:
        self.name = name
        self.declared: Declarations = {}
        self.fields: dict[str, list[tuple[str, str, str]]] = {}
        self.aliases: dict[str, str] = {}
        self._read(file.read_text())

    def _read(self, text: str) -> None:
        struct = ""
        for line in text.splitlines():
            if line.startswith("}"):
                struct = ""
            elif found := IMPORT.match(line):
                path = found[3].split("/")
                name = META if path[-2:] == ["meta", "v1"] else path[0]
                self.aliases[found[1] or path[-1]] = name
            elif found := TYPE.match(line):
                is_struct = found[2].startswith("struct")
                self.declared[found[1]] = "struct" if is_struct else found[2].split("//")[0].strip()
                struct = found[1] if is_struct and not line.endswith("}") else ""
            elif struct and (found := FIELD.match(line)):
                self.fields.setdefault(struct, []).append((found[2], found[3], found[4]))


def main() -> None:
    """Write the table."""
    api, machinery, aggregator = map(Path, sys.argv[1:4])
    packages = {name: Package(name, api / name / "v1" / "types.go") for name in GROUPS}
    packages[META] = Package(META, machinery / "pkg/apis/meta/v1/types.go")
    registration = aggregator / "pkg/apis/apiregistration/v1/types.go"
    packages[AGGREGATION] = Package(AGGREGATION, registration)
    types = {}
    for package in packages.values():
        for struct in package.declared:
            if fields := _fields(packages, package, struct):
                types[f"{package.name}.{struct}"] = fields
    reached = _reachable(types)
    document = {
        "groups": {group: name for name, group in GROUPS.items()}
        | {"apiregistration.k8s.io": AGGREGATION},
        "types": {name: fields for name, fields in sorted(types.items()) if name in reached},
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(_dump(document))
    print(f"{TARGET}: {len(reached)} types")


def _fields(packages: dict[str, Package], package: Package, struct: str) -> dict[str, str]:
    """From field number to "name type"; "..." for a field whose fields are inline in JSON."""
    fields = {}
    for go_type, json_tag, tag in package.fields.get(struct, ()):
        _, number, repeated, *_ = tag.split(",")
        expression = _expression(packages, package, go_type, is_repeated=repeated == "rep")
        name = json_tag.split(",")[0]
        if not name and ",inline" not in json_tag:
            raise ValueError(f"{package.name}.{struct}: no name in {json_tag}")
        fields[number] = f"{name or '...'} {expression}"
    return dict(sorted(fields.items(), key=lambda item: int(item[0])))


def _expression(
    packages: dict[str, Package], package: Package, go_type: str, *, is_repeated: bool
) -> str:
    if go_type in KNOWN:
        return KNOWN[go_type]
    if go_type.startswith("*"):
        inner = _expression(packages, package, go_type[1:], is_repeated=is_repeated)
        return f"*{inner}" if inner in SCALARS else inner
    if go_type.startswith("[]"):
        return "[]" + _expression(packages, package, go_type[2:], is_repeated=False).lstrip("*")
    if found := re.match(r"map\[\w+(?:\.\w+)?\](.+)", go_type):
        return "{}" + _expression(packages, package, found[1], is_repeated=False)
    alias, _, name = go_type.rpartition(".")
    home = packages[package.aliases[alias]] if alias else package
    declared = home.declared[name]
    if declared == "struct":
        return f"{home.name}.{name}"
    if declared.startswith("[]") and not is_repeated:  # a message of its own: its items
        return "items:" + _expression(packages, home, declared[2:], is_repeated=False)
    return _expression(packages, home, declared, is_repeated=is_repeated)


def _reachable(types: dict[str, dict[str, str]]) -> set[str]:
    """Types that kinds consist of."""
    todo = [name for name, fields in types.items() if _is_kind(fields)]
    todo.append("meta.DeleteOptions")
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found and name in types:
            found.add(name)
            todo += [field.split()[1].lstrip("[]{}") for field in types[name].values()]
    return found


def _is_kind(fields: dict[str, str]) -> bool:
    return "metadata meta.ObjectMeta" in fields.values()


def _dump(document: dict[str, dict[str, object]]) -> str:
    parts = []
    for section, rows in document.items():
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in rows.items()]
        parts.append(f"{json.dumps(section)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    main()
