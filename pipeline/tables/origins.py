"""What was handled of a recorder's rows, when their offsets turn out to count from elsewhere.

::

    origin of its newest segment                 its offsets that were handled
    as it was, or the recorder began again       all of them
    tells of a start that nobody knew of         those before it: from there on they were other rows
    another journal's                            aside, until that journal comes again; those of this one
"""

from __future__ import annotations

from collections.abc import Mapping

from ..recording.numbers import first_other, journal_of
from .interval_set import IntervalSet


def others(known: Mapping[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """Of origins by recorder those that are news; one that tells less than the known one is of a copy."""
    return {
        name: origin
        for name, origin in told.items()
        if name not in known or first_other(known[name], origin) is not None
    }


def handled_by(
    offsets: Mapping[str, IntervalSet], known: Mapping[str, str], told: Mapping[str, str]
) -> dict[str, IntervalSet]:
    """The offsets that were handled, as `State.offsets`, by other origins.

    Args:
        offsets: by the known origins.
        known: origins by recorder; who has none takes the first one that it is told.
        told: other ones.
    """
    found = dict(offsets)
    for recorder, origin in told.items():
        before = known.get(recorder, origin)
        first = first_other(before, origin)
        if first is None:
            continue
        handled = found.pop(recorder, IntervalSet())
        if first:
            found[recorder] = IntervalSet([end for span in handled.overlap(0, first - 1) for end in span])
        else:
            found[recorder] = found.pop(_aside(recorder, origin), IntervalSet())
            found[_aside(recorder, before)] = handled
    return found


def _aside(recorder: str, origin: str) -> str:
    return f"{recorder} {journal_of(origin)}"
