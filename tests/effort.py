"""How many examples a property is tried with: a fifth in the quick tier, all of them elsewhere."""

from __future__ import annotations

import os

QUICK = "TESTS_QUICK"
"""Variable that is set in the quick tier, for the processes of the run."""


def many(examples: int) -> int:
    """How many examples are tried in this run.

    Args:
        examples: how many prove something on their own.
    """
    return max(examples // 5, 10) if os.environ.get(QUICK) else examples
