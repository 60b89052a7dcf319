"""``python -m multiqueue``."""

import sys

from multiqueue.cli.program import main

sys.exit(main())
