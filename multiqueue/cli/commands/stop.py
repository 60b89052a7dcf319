"""``multiqueue stop``: kueuectl's command."""

from multiqueue.cli.kueuectl.holding import make_stop

command = make_stop()
