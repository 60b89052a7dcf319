"""The rules of tolerations, said once more in Python."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

tolerations = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(["a", "b"]),
            "operator": st.sampled_from(["Equal", "Exists", "Other"]),
            "value": st.sampled_from(["", "v"]),
            "effect": st.sampled_from([*EFFECTS, "Other"]),
            "tolerationSeconds": st.integers(0, 3),
        },
    ),
    max_size=3,
)
TOLERATIONS: dict[str, Callable[[Any], bool]] = {
    "operator must be Exists when 'key' is empty, which means 'match all values and all keys'": (
        lambda t: "key" in t or t.get("operator") == "Exists"
    ),
    "effect must be 'NoExecute' when 'tolerationSeconds' is set": (
        lambda t: "tolerationSeconds" not in t or t.get("effect") == "NoExecute"
    ),
    "supported toleration operators: 'Equal' (the default) and 'Exists'": (
        lambda t: t.get("operator", "Equal") in {"Equal", "Exists"}
    ),
    "a value must be empty when 'operator' is 'Exists'": (
        lambda t: t.get("operator") != "Exists" or not t.get("value")
    ),
    "supported taint effects: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'": (
        lambda t: t.get("effect", "NoExecute") in EFFECTS
    ),
}
