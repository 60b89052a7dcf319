"""Keys that a YAML or JSON text repeats, by line: what fieldValidation of an apply reports."""

from typing import Any

import orjson

from multiqueue.embedded.server.status import bad_request


def repeated_keys(text: bytes, decoded: Any) -> list[str]:
    """``line 6: key "a" already set in map`` for each; ``decoded`` is what the text decodes to.

    Raises:
        StatusError: 400, the text is no YAML.
    """
    # Encoding drops repeated keys: compact JSON of the same length has none.
    if len(orjson.dumps(decoded)) == len(text.strip()):
        return []
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: list[str] = []
    visited: set[int] = set()  # aliases may name a node many times
    try:
        pending = [yaml.compose(text, Loader=loader)]
    except yaml.YAMLError as error:  # JSON that is no YAML: it escapes half characters
        problem = getattr(error, "problem", error)
        raise bad_request(
            f"error decoding YAML: error converting YAML to JSON: yaml: {problem}"
        ) from error
    while pending:
        node = pending.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if key.value in seen:
                    line = key.start_mark.line + 1
                    found.append(f'line {line}: key "{key.value}" already set in map')
                seen.add(key.value)
                pending.append(value)
        elif isinstance(node, yaml.SequenceNode):
            pending.extend(node.value)
    return found
