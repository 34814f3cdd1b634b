"""``python -m pzc``: the command line, as the program ``pzc``."""

import sys


def main() -> int:
    """Run one command; Ctrl-C while it is imported is no traceback either."""
    try:
        from .console.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
