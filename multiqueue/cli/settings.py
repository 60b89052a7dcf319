"""Reads ``--set NAME=VALUE``."""

from __future__ import annotations

from typing import Any

from multiqueue.cli.errors import UsageProblem


def read_setting(setting: str, form: str) -> tuple[str, Any]:
    """Return the name and the value, which is YAML.

    Args:
        setting: The text of the option.
        form: The expected form, for the message.

    Raises:
        UsageProblem: the text does not have this form.
    """
    from multiqueue.lib import bounded_yaml

    name, equals, text = setting.partition("=")
    if not equals or not name:
        raise UsageProblem(f'--set "{setting}": write {form}')
    try:
        return name, bounded_yaml.load(text)
    except bounded_yaml.YamlError as error:
        raise UsageProblem(f'--set "{setting}": {error}') from error
