"""``multiqueue edit``: kubectl's command for the kinds of queues."""

from multiqueue.cli.kueuectl.hand_over import make_hand_over_group

command = make_hand_over_group("edit")
