"""Who would be stopped for a job: what its annotations say of its end."""

from __future__ import annotations

import pytest

from multiqueue.api.names import CHECKPOINT_SECONDS
from multiqueue.cli.views.rehearsal import rehearsal_to_dict
from multiqueue.whatif.trial import try_out
from tests.unit.whatif.test_changes import no_files
from tests.unit.whatif.worlds import make_job, make_snapshot


@pytest.mark.parametrize(
    ("declared", "want"),
    [("90", 90), ("²", None), ("-1", None), pytest.param("9" * 5000, None, id="long")],
)
def test_a_checkpoint_counts_if_it_is_declared_in_seconds(declared: str, want: int | None) -> None:
    snapshot = make_snapshot(holding=[make_job("research", "big", 8, accelerator="a100")])
    (obj,) = snapshot.of("Workload").values()
    (pod_set,) = obj["spec"]["podSets"]
    pod_set["template"].setdefault("metadata", {})["annotations"] = {CHECKPOINT_SECONDS: declared}
    tried = try_out(snapshot, ["drain worker-a100"], no_files)
    (stopped,) = rehearsal_to_dict(snapshot, tried, [])["stopped"]
    assert stopped["checkpointSeconds"] == want
