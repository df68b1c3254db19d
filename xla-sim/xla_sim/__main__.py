"""``python -m xla_sim``."""

import sys

from xla_sim.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
