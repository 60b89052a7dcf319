"""``multiqueue replay``: what the manager decides from a snapshot, and what a change would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from multiqueue.cli.errors import CliError, ExitCode, UsageProblem
from multiqueue.cli.output import output_option, print_data

if TYPE_CHECKING:
    from multiqueue.whatif.snapshot import Snapshot
    from multiqueue.whatif.trial import TriedChanges


@click.command("replay")
@click.argument("file", metavar="FILE")
@click.option(
    "--what-if",
    "changes",
    multiple=True,
    metavar="CHANGE",
    help='A change to try first, such as "quota cq/research nvidia.com/gpu=16"; may be repeated.',
)
@output_option
def command(*, file: str, changes: tuple[str, ...], output: str) -> int:
    """Decide from a snapshot with the manager's own engine, without a cluster.

    Says who has quota, who starts, who waits and why. With --what-if it says what the change makes
    different. Ends with 1 if a job that could start before never can after. docs/what-if.md has
    all changes.

    \b
    Examples:
      multiqueue replay fleet.snapshot
      multiqueue replay fleet.snapshot --what-if "quota cq/research nvidia.com/gpu=16"
      multiqueue replay fleet.snapshot --what-if "drain worker-a100" -o json
    """  # noqa: D301 - click reads the backspace
    from multiqueue.cli.snapshots import load_snapshot
    from multiqueue.cli.views import replay as view
    from multiqueue.whatif.replay import replay
    from multiqueue.whatif.snapshot import SnapshotError

    snapshot = load_snapshot(file)
    try:
        outcome = replay(snapshot)
    except SnapshotError as error:
        raise CliError(str(error)) from error
    if not changes:
        if output != "human":
            print_data(view.outcome_to_dict(snapshot, outcome), output)
        else:
            view.show_outcome(snapshot, outcome)
        return ExitCode.OK
    return _compare(snapshot, changes, output)


def _compare(snapshot: Snapshot, changes: tuple[str, ...], output: str) -> int:
    from multiqueue.cli.views import replay as view
    from multiqueue.whatif.documents import tried_to_dict

    tried = try_changes(snapshot, changes)
    if output != "human":
        print_data(tried_to_dict(snapshot, tried), output)
    else:
        view.show_tried(snapshot, tried)
    return ExitCode.FAILED if tried.difference.sums.never else ExitCode.OK


def try_changes(snapshot: Snapshot, changes: tuple[str, ...]) -> TriedChanges:
    """Replay a snapshot with and without changes.

    Raises:
        UsageProblem: a change cannot be made.
        CliError: the engine failed.
    """
    from multiqueue.cli.snapshots import submit_file
    from multiqueue.whatif.change_request import ChangeError
    from multiqueue.whatif.snapshot import SnapshotError
    from multiqueue.whatif.trial import try_out

    try:
        return try_out(snapshot, changes, submit_file)
    except ChangeError as error:
        raise UsageProblem(f"--what-if {error}") from error
    except SnapshotError as error:
        raise CliError(str(error)) from error
