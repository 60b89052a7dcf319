"""``python -m multiqueue``."""

import sys

from multiqueue.cli.main import main

sys.exit(main())
