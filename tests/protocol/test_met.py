"""What is known of a peer, its replies and its notifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pzc.agents.notification import Notification, Receipt, acknowledge, let_go, own
from pzc.agents.reply import Reply, accepted
from pzc.protocol.errors import LocalProtocolError, PeerLost
from pzc.protocol.frames import PZC01
from pzc.protocol.shown import hint
from pzc.transport.peer import MOST_TYPES, Peer


def peer(**details: object) -> Peer:
    return Peer("tcp://h:1", PZC01, "a" * 32, 1, "psu", "tcp://h:2", 0, details, key_id="lab")


@pytest.mark.parametrize(
    ("told", "expected"), [("bench", "bench"), (3, ""), ("x" * 300, "x" * 256), (None, "")]
)
def test_a_partition_is_a_short_text(told: object, expected: str) -> None:
    assert peer(partition=told).partition == expected


@pytest.mark.parametrize(("told", "expected"), [("telemetry", "telemetry"), (None, "lab")])
def test_notifications_are_signed_with_the_key_that_was_told_or_that_of_the_handshake(
    told: object, expected: str
) -> None:
    assert peer(publishes=told).publishing == expected


def test_types_that_are_none_are_left_out() -> None:
    met = peer()
    for told in ({"v": "Reading", 1: "x", "w": 2}, None, [1], {"long": "x" * 300}):
        met.learn(told)
    assert met.types == {"v": "Reading", "long": "x" * 256}


def test_the_types_of_one_peer_are_bounded() -> None:
    met = peer()
    met.learn({str(number): "t" for number in range(MOST_TYPES + 5)})
    assert len(met.types) == MOST_TYPES


def test_a_refusal_is_raised_anew_each_time() -> None:
    refusal = PeerLost("gone")
    reply = Reply(None, "json", False, "a", refusal=refusal)
    for _ in range(2):
        with pytest.raises(PeerLost, match="gone") as raised:
            accepted(reply)
        assert raised.value is not refusal
    assert refusal.__traceback__ is None
    assert accepted(reply._replace(refusal=None)).sender == "a"


@pytest.mark.parametrize(
    ("word", "expected"),
    [("voltag", "did you mean voltage?"), ("x", "known are current, voltage")],
)
def test_the_nearest_word_is_named_or_all_are(word: str, expected: str) -> None:
    assert hint(word, ["voltage", "current"]) == expected


class Ledger:
    def __init__(self) -> None:
        self.told: list[list[int]] = []

    def acknowledge(self, receipts: Sequence[Receipt], /) -> None:
        self.told.append([receipt.number for receipt in receipts])


def notification(content: Any = 1, receipt: Receipt | None = None) -> Notification:
    return Notification("a", "psu", "v", "", 1, 1, 0.0, 0.0, content, frames=(b"secret",), receipt=receipt)


def test_many_are_acknowledged_at_once_in_each_ledger() -> None:
    one, other = Ledger(), Ledger()
    acknowledge(notification(receipt=Receipt(ledger, n)) for n, ledger in enumerate([one, other, one]))
    assert (one.told, other.told) == ([[0, 2]], [[1]])


def test_one_that_needs_no_acknowledgement_tells_nobody() -> None:
    ledger = Ledger()
    for each in (notification(), notification(receipt=Receipt(ledger, 5))):
        each.acknowledge()
    acknowledge([notification()])
    assert ledger.told == [[5]]


def test_frames_and_receipts_are_not_shown() -> None:
    text = repr(notification(receipt=Receipt(Ledger(), 1)))
    assert "topic='v'" in text
    assert "secret" not in text
    assert "receipt" not in text


def test_a_copy_of_ones_own_may_be_changed() -> None:
    shared = notification(np.arange(3))
    mine = own(shared)
    mine.content[0] = 9
    assert shared.content[0] == 0
    assert own(notification(1.5)).content == 1.5


@pytest.mark.parametrize("use", [len, iter, lambda content: content[0]])
def test_a_content_that_was_let_go_of_says_so(use: Any) -> None:
    held = notification([1, 2])
    let_go(held)
    assert repr(held.content) == "<content let go of at the end of recv_zero_copy>"
    with pytest.raises(LocalProtocolError, match="let go of"):
        use(held.content)
