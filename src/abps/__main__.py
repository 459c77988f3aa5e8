"""`python -m abps` is `abps`."""

import sys

from abps.cli import main

sys.exit(main())
