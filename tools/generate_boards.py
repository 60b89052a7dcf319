"""Write the Grafana boards in config/grafana from the table below.

python -m tools.generate_boards

A board has the variables ``datasource``, ``queue``, ``cluster`` and ``cohort``. Panels need no
plugin.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[1] / "config" / "grafana"
Json = dict[str, Any]
WIDTH, HEIGHT, COLUMNS = 12, 8, 2
SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}


class Panel(NamedTuple):
    """A panel.

    Attributes:
        title: A question.
        says: One sentence that says how to read the answer.
        unit: Grafana's name of the unit.
        queries: A legend and an expression for each group of lines.
    """

    title: str
    says: str
    unit: str
    queries: dict[str, str]


class Variable(NamedTuple):
    """A variable of all boards, with the query that lists its values."""

    name: str
    query: str


VARIABLES = (
    Variable("queue", "label_values(kueue_cluster_queue_status, cluster_queue)"),
    Variable("cluster", "label_values(multiqueue_worker_connected, cluster)"),
    Variable("cohort", "label_values(kueue_cohort_info, cohort)"),
)
Q, C = 'cluster_queue=~"$queue"', 'cluster=~"$cluster"'


def _quantile(quantile: float, by: str, bucket: str, window: str = "15m") -> str:
    return f"histogram_quantile({quantile}, sum by ({by}, le) (rate({bucket}[{window}])))"


def _quantiles(legend: str, by: str, bucket: str, window: str = "15m") -> dict[str, str]:
    return {f"{legend} p{100 * q:g}": _quantile(q, by, bucket, window) for q in (0.5, 0.95, 0.99)}


BOARDS: dict[str, tuple[Panel, ...]] = {
    "Fleet": (
        Panel(
            "How many GPUs are in use, and how many are free?",
            "Quota of the connected workers by flavor; cordoned is free on workers that take "
            "nothing new.",
            "short",
            {
                "{{flavor}} {{kind}}": "sum by (flavor, kind) "
                f'(multiqueue_worker_gpus{{kind!="total",{C}}})'
            },
        ),
        Panel(
            "Are GPUs idle while jobs wait?",
            "Free GPUs, shown only while jobs wait for GPUs.",
            "short",
            {
                "idle": 'sum(multiqueue_worker_gpus{kind="free"}) '
                'and on () (sum(multiqueue_gpus{kind="pending"}) > 0)'
            },
        ),
        Panel(
            "Which workers are connected and well?",
            "1 is connected and healthy; below 0.5 dispatchers avoid the worker.",
            "short",
            {
                "{{cluster}} connected": f"max by (cluster) (multiqueue_worker_connected{{{C}}})",
                "{{cluster}} health": f"min by (cluster) (multiqueue_worker_health{{{C}}})",
                "{{cluster}} cordoned": f"max by (cluster) (multiqueue_worker_cordoned{{{C}}})",
            },
        ),
        Panel(
            "Where do jobs stand?",
            "Workloads by phase; the commands and the dashboard use the same words.",
            "short",
            {"{{phase}}": f"sum by (phase) (multiqueue_phase_workloads{{{Q}}})"},
        ),
        Panel(
            "What do workers take, refuse and give back?",
            "Per second; a worker that was raced against others and lost counts as withdrawn.",
            "ops",
            {
                "{{cluster}} taken": "sum by (cluster) "
                f"(rate(multikueue_workloads_admitted_total{{{C}}}[15m]))",
                "{{cluster}} {{reason}}": "sum by (cluster, reason) "
                f"(rate(multiqueue_worker_rejections_total{{{C}}}[15m]))",
                "{{cluster}} withdrawn": "sum by (cluster) "
                f"(rate(multiqueue_worker_wasted_copies_total{{{C}}}[15m]))",
            },
        ),
        Panel(
            "How long from quota to a worker?",
            "Includes waiting for room on the worker.",
            "s",
            _quantiles(
                "{{cluster}}", "cluster", f"multiqueue_worker_admission_seconds_bucket{{{C}}}"
            ),
        ),
    ),
    "Queues": (
        Panel(
            "How much of their quota do queues use?",
            "GPUs of admitted jobs by nominal quota; more than 1 is borrowed.",
            "percentunit",
            {
                "{{cluster_queue}}": "sum by (cluster_queue) "
                f'(multiqueue_gpus{{kind="running",{Q}}}) / sum by (cluster_queue) '
                f'(multiqueue_gpus{{kind="nominal",{Q}}})'
            },
        ),
        Panel(
            "Who borrows, and who lends?",
            "GPUs beyond the own quota, and own GPUs that others hold.",
            "short",
            {
                f"{{{{cluster_queue}}}} {kind}": "sum by (cluster_queue) "
                f'(multiqueue_gpus{{kind="{kind}",{Q}}})'
                for kind in ("borrowed", "lent")
            },
        ),
        Panel(
            "Why do jobs wait?",
            "Workloads that are not admitted, by reason.",
            "short",
            {
                "{{reason}} {{underlying_cause}}": "sum by (reason, underlying_cause) "
                f"(kueue_unadmitted_workloads{{{Q}}})"
            },
        ),
        Panel(
            "How long do jobs wait until they are admitted?",
            "From creation or requeuing.",
            "s",
            _quantiles(
                "{{cluster_queue}}",
                "cluster_queue",
                f"kueue_admission_wait_time_seconds_bucket{{{Q}}}",
            ),
        ),
        Panel(
            "Who has waited longest, and who starves?",
            "Starved: jobs wait while others hold GPUs of the queue's own quota.",
            "s",
            {
                "{{cluster_queue}} oldest": "max by (cluster_queue) "
                f"(multiqueue_oldest_waiting_seconds{{{Q}}})",
                "{{cluster_queue}} starved": "max by (cluster_queue) "
                f"(multiqueue_starved_seconds{{{Q}}})",
            },
        ),
        Panel(
            "How many jobs are admitted and finished in an hour?",
            "If fewer finish than are admitted, the fleet fills up.",
            "short",
            {
                f"{{{{cluster_queue}}}} {word}": "sum by (cluster_queue) "
                f"(increase(kueue_{word}_workloads_total{{{Q}}}[1h]))"
                for word in ("admitted", "finished")
            },
        ),
        Panel(
            "Why are jobs evicted?",
            "In an hour, by reason.",
            "short",
            {
                "{{reason}} {{underlying_cause}}": "sum by (reason, underlying_cause) "
                f"(increase(kueue_evicted_workloads_total{{{Q}}}[1h]))"
            },
        ),
        Panel(
            "Are shares fair?",
            "Share of what is borrowed by weight, in thousandths; who has less goes first.",
            "short",
            {
                "{{cluster_queue}}": "max by (cluster_queue) "
                f'(kueue_cluster_queue_weighted_share{{{Q},cohort=~"$cohort"}})'
            },
        ),
    ),
    "SLO": (
        Panel(
            "How much of the budget is left?",
            "Of the errors that the objective allows in 28 days: 99 % of reserve, dispatch and "
            "sync, 95 % of start; 0 is all used up.",
            "percentunit",
            {
                "{{stage}} {{cluster}}": "1 - avg_over_time("
                'multiqueue:stage_bad:ratio_rate1h{stage!="start"}[28d]) / 0.01',
                "start {{cluster}}": "1 - avg_over_time("
                'multiqueue:stage_bad:ratio_rate1h{stage="start"}[28d]) / 0.05',
            },
        ),
        Panel(
            "Which stages are too slow now?",
            "Share of steps that took longer than their objective.",
            "percentunit",
            {
                "{{stage}} {{cluster}}": "max by (stage, cluster) "
                "(multiqueue:stage_bad:ratio_rate5m)"
            },
        ),
        Panel(
            "How long do the stages take?",
            "Only time in which the next step is the manager's or a worker's.",
            "s",
            _quantiles("{{stage}}", "stage", "multiqueue_stage_seconds_bucket", "5m"),
        ),
        Panel(
            "How late do changes on workers arrive?",
            "From the change there to its copy here.",
            "s",
            _quantiles(
                "{{cluster}}", "cluster", f"multiqueue_remote_sync_lag_seconds_bucket{{{C}}}", "5m"
            ),
        ),
    ),
    "Manager": (
        Panel(
            "Does a manager lead, and did somebody change something?",
            "One replica leads; bars of changes explain many other lines.",
            "short",
            {
                "leading": "sum(multiqueue_leading)",
                "changed {{kind}}": "sum by (kind) (increase(multiqueue_config_changes_total[5m]))",
            },
        ),
        Panel(
            "What does it ask of API servers?",
            "Requests a second by cluster and code; without a name it is the manager's own.",
            "reqps",
            {
                "{{cluster}} {{code}}": "sum by (cluster, code) "
                "(rate(multiqueue_api_requests_total[5m]))"
            },
        ),
        Panel(
            "How long does a cycle take?",
            "A cycle decides who is admitted next.",
            "s",
            _quantiles(
                "{{result}}", "result", "kueue_admission_attempt_duration_seconds_bucket", "5m"
            ),
        ),
        Panel(
            "Is the event loop late?",
            "Everything that the manager does waits this long in addition.",
            "s",
            {
                f"p{100 * q:g}": f"histogram_quantile({q}, sum by (le) "
                "(rate(multiqueue_event_loop_lag_seconds_bucket[5m])))"
                for q in (0.5, 0.99)
            },
        ),
        Panel(
            "What waits to be reconciled?",
            "A queue that grows and does not shrink is stuck or too slow.",
            "short",
            {"{{reconciler}}": "max by (reconciler) (multiqueue_queue_depth)"},
        ),
        Panel(
            "How do dispatchers do?",
            "Time for an answer, and questions without one.",
            "s",
            {
                "{{dispatcher}} p99": _quantile(
                    0.99, "dispatcher", "multiqueue_dispatch_duration_seconds_bucket", "5m"
                ),
                "{{dispatcher}} failures": "sum by (dispatcher) "
                "(increase(multiqueue_dispatch_failures_total[5m]))",
            },
        ),
    ),
}


def render(name: str) -> str:
    """Return a board in Grafana's format."""
    board = {
        "uid": f"multiqueue-{name.lower()}",
        "title": f"multiqueue / {name}",
        "tags": ["multiqueue"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), *map(_variable, VARIABLES)]},
        "panels": [_panel(place, panel) for place, panel in enumerate(BOARDS[name])],
    }
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def _source() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(variable: Variable) -> Json:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": SOURCE,
        "query": variable.query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(place: int, panel: Panel) -> Json:
    row, column = divmod(place, COLUMNS)
    return {
        "id": place + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
            for number, (legend, expression) in enumerate(panel.queries.items())
        ],
    }


if __name__ == "__main__":
    for name in BOARDS:
        (FOLDER / f"{name.lower()}.json").write_text(render(name))
