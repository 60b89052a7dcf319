"""All steps, in the order in which they are run: the first ones show whether it works at all."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e import life, moves, outages
from tests.e2e.fleet_under_test import FleetUnderTest

Step = Callable[[FleetUnderTest], None]

CORE: tuple[Step, ...] = (
    life.a_burst_runs_once_each_on_both_workers,
    outages.a_killed_manager_goes_on_where_it_was,
    outages.a_worker_that_comes_back_in_time_keeps_its_job,
    outages.an_outage_of_the_managers_server_loses_nothing,
    moves.a_job_preempted_on_its_worker_runs_on_the_other,
)
"""Those that every run on real control planes takes time for."""
STEPS: tuple[Step, ...] = (
    *CORE,
    life.jobs_spill_over_and_their_status_comes_back,
    life.a_deleted_job_is_gone_everywhere,
    life.a_job_is_deleted_that_waits_for_a_worker,
    life.a_job_of_the_same_name_is_left_alone,
    moves.a_drained_worker_is_left,
    moves.a_job_stays_whose_cluster_leaves_the_configuration,
    moves.a_new_kubeconfig_disturbs_nothing,
    outages.a_worker_that_comes_back_too_late_is_fenced,
)
