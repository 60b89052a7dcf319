"""``multiqueue resume``: kueuectl's command."""

from multiqueue.cli.kueuectl.holding import make_resume

command = make_resume()
