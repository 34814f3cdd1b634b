"""Messages of five parts are received whole, whatever comes between them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from pzc.transport.parts import message_behind, receive_message

Parts = list[bytes]


class Pair:
    """Two ends of a socket."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.near, self.far = self.context.socket(zmq.PAIR), self.context.socket(zmq.PAIR)
        self.far.bind("inproc://pair")
        self.near.connect("inproc://pair")

    def received(self, *messages: Parts) -> list[Parts]:
        for parts in messages:
            self.near.send_multipart(parts)
        found: list[Parts] = []
        try:
            while True:
                found.append(receive_message(self.far))
        except zmq.Again:
            return found

    def close(self) -> None:
        self.near.close(0)
        self.far.close(0)
        self.context.term()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def parts(name: bytes, count: int) -> Parts:
    return [b"PZC01+" + name, *(name + b"%d" % number for number in range(1, count))]


GOOD = parts(b"good", 5)


def test_nothing_is_received_where_nothing_is(pair: Pair) -> None:
    assert pair.received() == []


def test_messages_of_five_parts_are_received_one_by_one(pair: Pair) -> None:
    assert pair.received(GOOD, GOOD, GOOD) == [GOOD] * 3


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 7, 12])
def test_a_message_of_another_number_of_parts_is_received_whole(pair: Pair, count: int) -> None:
    odd = parts(b"odd", count)
    assert pair.received(odd) == [odd]


@pytest.mark.parametrize(
    "counts", [(1,), (2,), (3,), (4,), (1, 1), (2, 2), (1, 1, 1, 1), (6,), (1, 6), (3, 9)]
)
def test_the_message_behind_others_is_found(pair: Pair, counts: tuple[int, ...]) -> None:
    odd = [parts(b"%d" % number, count) for number, count in enumerate(counts)]
    *others, last = pair.received(*odd, GOOD)
    behind = message_behind(last) or last
    assert behind == GOOD
    before = [part for each in others for part in each] + last[: len(last) - len(GOOD)]
    assert before == [part for each in odd for part in each]


def test_of_one_message_with_too_many_parts_none_is_taken(pair: Pair) -> None:
    (odd,) = pair.received(parts(b"odd", 7))
    assert message_behind(odd) == []
