"""The ``multiqueue`` command: a table of commands."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from multiqueue import __version__
from multiqueue.cli.errors import CliError, ExitCode
from multiqueue.cli.lazy import LazyGroup

SECTIONS = {
    "Try it": {
        "demo": "A manager and two GPU workers on this machine",
        "apiserver": "Run an embedded cluster for trying things out",
    },
    "Submit jobs, and see where they are": {
        "submit": "Submit manifests and say where each job stands",
        "queue": "Show who waits in a queue, in which order and why",
        "why": "Explain where a job stands and what it waits for",
        "eta": "Say when a waiting job is expected to start",
        "wait": "Wait until jobs have quota, run or have ended",
        "top": "Show how full queues and workers are, live",
        "workloads": "List Workloads with where they stand",
        "pods": "Show the pods of a job, wherever it runs",
        "logs": "Print what the pods of a job print, wherever it runs",
        "events": "Show what happened to a job, here and on its worker",
        "cancel": "Delete jobs with their pods, wherever they run",
        "dashboard": "Show the fleet in a browser",
    },
    "Before you submit": {
        "lint": "Find pitfalls in manifests or in a cluster",
        "dispatch": "Say where a job would go before it is submitted",
        "preempt": "Say who would be stopped for a job before it is submitted",
    },
    "See the fleet": {
        "clusters": "Show the worker clusters and their GPUs; cordon them",
        "queues": "List ClusterQueues; show one queue in numbers, and diagnose it",
        "cohorts": "Show the tree of cohorts and queues, and who lends to whom",
        "flavors": "Show the ResourceFlavors and their GPUs",
        "fairness": "Show how queues share, and which are starved",
        "decisions": "Show where jobs were offered lately, and why",
        "changes": "Show what was changed lately in queues, flavors and workers",
        "usage": "Show what teams and queues reserved and ran",
    },
    "Run the fleet": {
        "run": "Run the manager against a cluster",
        "config": "Check a configuration file; show defaults and feature gates",
        "quota": "Show what a QuotaPlan or a manifest would change of quotas",
        "snapshot": "Write what the manager decides from into one file",
        "replay": "Decide from a snapshot, and try changes on it",
        "import": "Put running pods and Jobs into queues, so that they hold quota",
        "migrate": "Take a cluster over from upstream Kueue, and go back",
        "notify": "Send a test to those who are notified about jobs",
        "worker-guard": "Guard a worker against managers that are not up to date",
    },
    "Extend it": {
        "dispatcher": "Write a dispatcher, test it, try it on what was decided before",
        "jobkind": "Try the declaration of a job kind; print the roles for it",
        "simulate": "Compare dispatchers on a trace of jobs, in virtual time",
    },
    "As kueuectl and kubectl do": {
        "list": "List Workloads, queues, flavors, or the pods of a job, as kueuectl does",
        "create": "Create a queue or a flavor from options",
        "stop": "Stop a Workload, or hold a queue",
        "resume": "Resume what was stopped or held",
        "delete": "Delete Workloads with their jobs, queues or flavors",
        "get": "Hand over to kubectl get",
        "describe": "Hand over to kubectl describe",
        "edit": "Hand over to kubectl edit",
        "patch": "Hand over to kubectl patch",
    },
    "Other": {
        "completion": "Print the completion script for a shell",
        "version": "Print the version",
    },
}
"""The commands with their line of help, in the order of the help text."""
COMMANDS = [name for section in SECTIONS.values() for name in section]

OF_KUBECTL = frozenset({"get", "describe", "edit", "patch"})
"""Commands that are kubectl's, for the kinds of queues."""
SHORT_WITH_VALUE = re.compile(r"^(-[A-Za-z])=(?=.)")

NOTES = (
    "Exit codes: 0 done; 1 refused, or a job ended otherwise than it should; 2 wrong usage or an "
    "unreadable file; 3 the cluster cannot be reached."
    "\n\n"
    "Every command that talks to a cluster also takes these flags of kubectl: -s/--server, "
    "--token, --as, --as-group, --as-uid, --certificate-authority, --client-certificate, "
    "--client-key, --insecure-skip-tls-verify, --tls-server-name, --request-timeout."
)


class ProgramGroup(LazyGroup):
    """Reads the command line for all commands."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command, or make it: kubectl's, and kueuectl's that stop and resume."""
        if cmd_name in OF_KUBECTL:
            from multiqueue.cli.kueuectl.hand_over import make_hand_over_group

            return make_hand_over_group(cmd_name)
        if cmd_name in {"stop", "resume"}:
            from multiqueue.cli.kueuectl.holding import make_resume, make_stop

            return make_stop() if cmd_name == "stop" else make_resume()
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept ``-o=json`` as kubectl does; click would make the sign a part of the value."""
        return super().parse_args(ctx, [SHORT_WITH_VALUE.sub(r"\1", each) for each in args])


@click.command(
    cls=ProgramGroup,
    sections=SECTIONS,
    modules="multiqueue.cli.commands.{}",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=NOTES,
)
@click.version_option(__version__, prog_name="multiqueue")
def cli() -> None:
    """One queue for every GPU cluster: submit a Kubernetes job once, it runs where it fits."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code."""
    try:
        result = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name=_program_name(),
            standalone_mode=False,
        )
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:
        return 128 + signal.SIGINT
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except CliError as error:
        _complain(str(error))
        return error.code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; avoid the interpreter's complaint at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    return result if isinstance(result, int) else ExitCode.OK


def _program_name() -> str:
    """Return the program's name; as a kubectl plugin it is ``kubectl multiqueue``."""
    return (
        " ".join(Path(sys.argv[0]).name.split("-")) if "kubectl-" in sys.argv[0] else "multiqueue"
    )


def _complain(message: str) -> None:
    text = message.strip()
    click.echo(click.style("error: ", fg="red") + text, err=True)
