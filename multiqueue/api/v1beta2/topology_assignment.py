"""The schema of ``topologyAssignment``: compact lists of topology domains with their pod counts.

The value itself stays a dict; `multiqueue.api.topology_encoding` reads and writes it.
"""

from multiqueue.api.markers import SchemaRule, described

_VALUE = {"type": "string", "maxLength": 63}

_INDIVIDUAL_VALUES = {
    "type": "object",
    "description": "One value for each domain: prefix, root and suffix joined.",
    "required": ["roots"],
    "properties": {
        "prefix": {**_VALUE, "description": "What all values begin with."},
        "suffix": {**_VALUE, "description": "What all values end with."},
        "roots": {
            "type": "array",
            "description": "The middle of each value, in the order of the domains.",
            "items": _VALUE,
            "minItems": 1,
            "maxItems": 100_000,
            "x-kubernetes-list-type": "atomic",
        },
    },
}

_VALUES = {
    "type": "object",
    "description": "Values of one level; exactly one of universal and individual.",
    "properties": {
        "universal": {**_VALUE, "description": "The same value for all domains."},
        "individual": _INDIVIDUAL_VALUES,
    },
    "x-kubernetes-validations": [
        SchemaRule(
            "has(self.universal) != has(self.individual)",
            "exactly one of universal and individual is required",
        ).as_dict()
    ],
}

_POD_COUNTS = {
    "type": "object",
    "description": "Pods in each domain; exactly one of universal and individual.",
    "properties": {
        "universal": {
            "type": "integer",
            "format": "int32",
            "minimum": 1,
            "description": "The same number in all domains.",
        },
        "individual": {
            "type": "array",
            "description": "A number for each domain.",
            "items": {"type": "integer", "format": "int32", "minimum": 1},
            "minItems": 1,
            "maxItems": 100_000,
            "x-kubernetes-list-type": "atomic",
        },
    },
    "x-kubernetes-validations": [
        SchemaRule(
            "has(self.universal) != has(self.individual)",
            "exactly one of universal and individual is required",
        ).as_dict()
    ],
}

_SLICE = {
    "type": "object",
    "description": "Some domains, described together.",
    "required": ["domainCount", "podCounts", "valuesPerLevel"],
    "properties": {
        "domainCount": {
            "type": "integer",
            "format": "int32",
            "minimum": 1,
            "description": "Number of domains.",
        },
        "valuesPerLevel": {
            "type": "array",
            "description": "For each level, the values of these domains.",
            "items": _VALUES,
            "minItems": 1,
            "maxItems": 16,
            "x-kubernetes-list-type": "atomic",
        },
        "podCounts": _POD_COUNTS,
    },
    "x-kubernetes-validations": [
        SchemaRule(
            "self.valuesPerLevel.all(x, has(x.universal) || "
            "(has(x.individual) && size(x.individual.roots) == self.domainCount))",
            "each level must have either one universal value or as many values as domainCount",
        ).as_dict(),
        SchemaRule(
            "has(self.podCounts.universal) || "
            "(has(self.podCounts.individual) && "
            "size(self.podCounts.individual) == self.domainCount)",
            "podCounts must be universal or have as many numbers as domainCount",
        ).as_dict(),
    ],
}

TOPOLOGY_ASSIGNMENT = described(
    "Topology domains that the pods were placed in.",
    required=("levels", "slices"),
    properties={
        "levels": {
            "type": "array",
            "description": "Node labels of the levels, from the widest to the narrowest.",
            "items": {"type": "string", "maxLength": 317},
            "minItems": 1,
            "maxItems": 16,
            "x-kubernetes-list-type": "atomic",
        },
        "slices": {
            "type": "array",
            "description": "The domains, in groups.",
            "items": _SLICE,
            "maxItems": 1000,
            "x-kubernetes-list-type": "atomic",
        },
    },
    rules=(
        SchemaRule(
            "self.slices.all(x, size(x.valuesPerLevel) == size(self.levels))",
            "valuesPerLevel must have as many elements as levels",
        ),
    ),
)
