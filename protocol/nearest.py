"""The nearest right words for a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 40
"""Words that are listed when none is near."""


def hint(word: str, known: Iterable[str], *, most: int = 1, otherwise: str = "known are") -> str:
    """What may have been meant: ``did you mean voltage?``, else which words there are.

    Args:
        word: that is not known.
        known: all that are.
        most: words that may be named as near.
        otherwise: what is said before the list of all, when none is near.
    """
    words = sorted(known)
    named = {each.lstrip("-"): each for each in words}  # that both are options does not make two words alike
    near = [named[each] for each in difflib.get_close_matches(word.lstrip("-"), named, n=most)]
    return (
        f"did you mean {' or '.join(near)}?" if near else f"{otherwise} {', '.join(words[:_SHOWN]) or 'none'}"
    )
