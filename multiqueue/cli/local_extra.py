"""Checks for the extra ``local``, whose libraries only the embedded cluster needs."""

from __future__ import annotations

from importlib.util import find_spec

from multiqueue.cli.errors import CliError

LIBRARIES = ("cel_expr_python", "google.protobuf", "jsonpatch", "jsonschema_rs")


def require_local_extra(command: str) -> None:
    """Refuse a command if the libraries of the embedded cluster are not installed.

    Args:
        command: The command that the user started.

    Raises:
        CliError: names the package to install.
    """
    missing = [name for name in LIBRARIES if not _is_installed(name)]
    if missing:
        raise CliError(
            f"{command} runs an embedded cluster, which needs libraries that are not installed "
            f"({', '.join(missing)}): pip install 'multiqueue[local]', or from a checkout "
            "pip install '.[local]'"
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False
