"""``multiqueue completion``: the script that makes a shell complete commands and names."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that makes SHELL complete commands, options and names.

    kubectl completes the plugin by itself, from version 1.26 on.

    \b
    source <(multiqueue completion bash)
    multiqueue completion fish > ~/.config/fish/completions/multiqueue.fish
    """  # noqa: D301 - click reads the backspace
    from click.shell_completion import get_completion_class

    from multiqueue.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None, shell
    click.echo(found(cli, {}, "multiqueue", "_MULTIQUEUE_COMPLETE").source())
