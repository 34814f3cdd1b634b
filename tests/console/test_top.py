"""What ``pzc top`` makes of what an agent tells."""

from __future__ import annotations

from typing import Any

from pzc.console.top import lines_of

_AGE = {"measured": 1, "min": 0.001, "mean": 0.001, "max": 0.001, "p99": 0.001}
_TOLD: dict[str, Any] = {
    "agent": "psu",
    "name": "psu",
    "endpoint": "tcp://127.0.0.1:5555",
    "calls": {"count": 12, "rate_hz": 3.0, "running": 1, "waiting": 2},
    "lock": {"owner": "alice", "waiting": 1},
    "topics": {
        "t": {"published": 5, "rate_hz": 1.5, "bytes_per_s": 2000.0, "dropped": 1, "subscribers": 2}
    },
    "links": [
        {
            "agent": "ab" * 16, "transport": "unix", "state": "alive", "sent": 4, "rate_hz": 2.0,
            "unacknowledged": 1, "waiting": 2, "leases": 3, "age": _AGE,
        }
    ],
    "subscriptions": [
        {
            "topic": "u", "publisher": "cd" * 16, "transport": "tcp", "received": 7, "rate_hz": 0.5,
            "dropped": 0, "age": _AGE,
        }
    ],
}  # fmt: skip


def test_an_agent_as_text() -> None:
    assert lines_of(_TOLD) == [
        "psu tcp://127.0.0.1:5555  calls 12 (3.0/s), 1 running, 2 waiting  lock held by alice, 1 waiting",
        "  topic  published  rate/s  bytes/s  dropped  readers",
        "  t              5     1.5  2.00 kB        1        2",
        "  link to   transport  state  sent  rate/s  unread  leases  p99 ms",
        "  abababab       unix  alive     4     2.0       3       3     1.0",
        "  reads        of  transport  received  rate/s  dropped  p99 ms",
        "  u      cdcdcdcd        tcp         7     0.5        0     1.0",
    ]


def test_a_free_lock_and_empty_tables_are_short() -> None:
    told = {**_TOLD, "lock": None, "topics": {}, "links": [], "subscriptions": []}
    assert lines_of(told) == ["psu tcp://127.0.0.1:5555  calls 12 (3.0/s), 1 running, 2 waiting  lock free"]
