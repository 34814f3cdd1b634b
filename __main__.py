"""``python -m pzc``: the command line, as the program ``pzc``."""

import sys

from .console.main import main

sys.exit(main())
