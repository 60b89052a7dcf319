"""``multiqueue simulate``: which dispatcher suits a fleet and its jobs, in virtual time."""

from __future__ import annotations

import click

from multiqueue.cli.errors import UsageProblem
from multiqueue.cli.output import output_option, print_data, print_table


@click.command("simulate")
@click.option("--trace", default="helios-like", show_default=True, help="Where jobs come from.")
@click.option(
    "--clusters",
    type=click.IntRange(min=1, max=200),
    default=4,
    show_default=True,
    metavar="N",
    help="So many clusters, of A100 and H100 in turn.",
)
@click.option(
    "--compare",
    "dispatchers",
    default="all-at-once,incremental,score",
    show_default=True,
    metavar="NAME,…",
    help="The dispatchers; differences are to the first one.",
)
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, metavar="N")
@click.option("--first-seed", type=int, default=1, show_default=True, metavar="N")
@click.option("--jobs", type=click.IntRange(min=1), default=2000, show_default=True, metavar="N")
@click.option(
    "--load", type=click.FloatRange(min=0.05, max=2), default=0.9, show_default=True, metavar="X"
)
@click.option("--teams", type=click.IntRange(min=1, max=8), default=4, show_default=True)
@output_option
def command(
    *,
    trace: str,
    clusters: int,
    dispatchers: str,
    seeds: int,
    first_seed: int,
    jobs: int,
    load: float,
    teams: int,
    output: str,
) -> None:
    """Play a trace of jobs on a fleet with several dispatchers, and compare what comes of it."""
    from multiqueue.simulation.compare import Plan, UnknownDispatcherError, compare
    from multiqueue.simulation.fleet import make_fleet
    from multiqueue.simulation.table import list_rows

    plan = Plan(
        trace=trace,
        fleet=make_fleet(clusters),
        dispatchers=tuple(dict.fromkeys(name.strip() for name in dispatchers.split(","))),
        seeds=tuple(range(first_seed, first_seed + seeds)),
        count=jobs,
        load=load,
        teams=teams,
    )
    try:
        comparison = compare(plan)
    except UnknownDispatcherError as error:
        raise UsageProblem(str(error)) from error
    if output != "human":
        print_data(comparison.summaries(), output)
    else:
        print_table(*list_rows(comparison))
