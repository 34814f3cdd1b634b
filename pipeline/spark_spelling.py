"""How DuckDB spells what an alarm rule says in SQL of Spark."""

from __future__ import annotations

import re

_TEXT = r"'[^']*'"
_SPELLINGS = (
    (r"get\(\s*from_json\(\s*(\w+)\s*,\s*'ARRAY<(\w+)>'\s*\)\s*,\s*(\d+)\s*\)", r"CAST(\1->>'$[\3]' AS \2)"),
    (r"from_json\(\s*(\w+)\s*,\s*'`?(\w+)`?:?\s+(\w+)'\s*\)\.`?\2`?", r"CAST(\1->>'$.\2' AS \3)"),
    (rf"get_json_object\(\s*(\w+)\s*,\s*({_TEXT})\s*\)", r"(\1->>\2)"),
    (rf"(\w+)\s+not\s+rlike\s+({_TEXT})", r"NOT regexp_matches(\1, \2)"),
    (rf"(\w+)\s+(?:rlike|regexp)\s+({_TEXT})", r"regexp_matches(\1, \2)"),
    (r"\b(?:rlike|regexp|regexp_like)\(", "regexp_matches("),
    (r"\b(?:size|array_size)\(", "len("),
    (r"\b(?:nvl|ifnull)\(", "coalesce("),
    (r"\bstartswith\(", "starts_with("),
    (r"\bendswith\(", "ends_with("),
    (r"\bunix_micros\(", "epoch_us("),
    (r"\bunix_millis\(", "epoch_ms("),
    (r"\bunix_(?:seconds|timestamp)\(", "epoch("),
    (r"`([^`]*)`", r'"\1"'),
)
_PLACE = r"\bget\(\s*(\w+)\s*,\s*(\d+)\s*\)|\b(value_list|shape)\s*\[\s*(\d+)\s*\]"


def spelled(text: str) -> str:
    """The expression with what only Spark knows put as DuckDB has it; the same text when there is nothing."""
    for pattern, other in _SPELLINGS:
        text = re.sub(pattern, other, text, flags=re.IGNORECASE)
    return re.sub(_PLACE, _counted_from_one, text, flags=re.IGNORECASE)


def _counted_from_one(found: re.Match[str]) -> str:
    of, place = found[1] or found[3], found[2] or found[4]
    return f"{of}[{int(place) + 1}]"


def counted_from_zero(text: str) -> str | None:
    """What is wrong with an expression that asks for the element 0 of a list, which DuckDB does not have."""
    found = re.search(r"\b(?:value_list|shape)\s*\[\s*0\s*\]", text, flags=re.IGNORECASE)
    return f"{found[0]!r} is null: lists count from 1" if found else None
