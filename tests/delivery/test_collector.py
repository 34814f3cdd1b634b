from __future__ import annotations

from typing import Any

import pytest

from pzc.delivery.collector import Arrived, Collector, Ended, Forgotten, Missed, Restarted, Silent
from pzc.delivery.mail import (
    Applied,
    Batch,
    CommandRequest,
    Lost,
    Message,
    Outdated,
    PollRequest,
    Position,
    Refusal,
)
from pzc.delivery.policies import mailbox
from pzc.protocol.errors import ConfigError

AT = Position(7, 1)
NEXT = Position(8, 1)


def batch(
    first: int, last: int, *lost: Lost, after: int | None = None, position: Position = AT
) -> Batch[int]:
    messages = [Message("t", None, number, 1, number, 0.0) for number in range(first, last + 1)]
    return Batch(position, first - 1 if after is None else after, first, messages, lost)


def arrived(events: list[Any]) -> list[int]:
    return [message.payload for event in events if isinstance(event, Arrived) for message in event.messages]


class Reader:
    """A collector that wants a topic, and the requests that it has in flight."""

    def __init__(self, **options: Any) -> None:
        self.collector: Collector[int] = Collector(options.pop("policy", mailbox()), 0.0, **options)
        self.collector.subscribe("t")
        self.now = 0.0
        self.poll: PollRequest | None = None
        self.command: CommandRequest | None = None
        self.send()

    def send(self, now: float | None = None) -> list[Any]:
        """Returns what was sent."""
        self.now = self.now if now is None else now
        sent = self.collector.requests(self.now)
        for request in sent:
            if isinstance(request, PollRequest):
                self.poll = request
            else:
                self.command = request
        return sent

    def get(self, answer: Any) -> list[Any]:
        """The answer to the last poll or command comes; what is to be sent next is sent."""
        request = self.command if isinstance(answer, Applied | Outdated) else self.poll
        assert request is not None
        events = self.collector.answered(request, answer, self.now)
        self.send()
        return events


def reading(**options: Any) -> Reader:
    reader = Reader(**options)
    reader.get(Applied(AT, 1))
    reader.get(batch(1, 0))
    return reader


def test_it_says_what_it_wants_and_polls_at_once() -> None:
    reader = Reader()
    assert reader.command is not None
    assert reader.poll is not None
    assert [(each.topic, each.key, each.subscribe) for each in reader.command.batch.commands] == [
        ("t", None, True)
    ]
    assert (reader.command.batch.begins, reader.command.batch.ends) == (True, True)
    assert (reader.poll.position, reader.poll.after) == (None, None)
    assert not reader.collector.settled


def test_it_does_nothing_while_nothing_is_wanted() -> None:
    collector: Collector[int] = Collector(mailbox(), 0.0)
    assert (collector.requests(1.0), collector.next_deadline(), collector.tick(100.0)) == ([], None, [])


def test_messages_come_once_and_in_order() -> None:
    reader = reading()
    assert arrived(reader.get(batch(1, 3))) == [1, 2, 3]
    assert arrived(reader.get(batch(1, 5))) == [4, 5]
    assert arrived(reader.get(batch(2, 5))) == []
    assert arrived(reader.get(batch(7, 8))) == []
    assert arrived(reader.get(batch(6, 8))) == [6, 7, 8]


def test_the_next_poll_says_what_was_received_and_what_is_done() -> None:
    reader = reading()
    reader.get(batch(1, 3))
    assert reader.poll is not None
    assert (reader.poll.after, reader.poll.acknowledged) == (3, 0)
    reader.collector.done(AT, [2], 1.0)
    reader.collector.done(AT, [1], 1.0)
    assert reader.send(1.01) == []
    assert reader.send(1.02) == [reader.poll]
    assert (reader.poll.after, reader.poll.acknowledged) == (3, 2)


def test_an_eviction_is_told_before_what_follows_it_and_needs_no_acknowledgement() -> None:
    reader = reading()
    events = reader.get(batch(3, 4, Lost(1, 2, "t", 5, 6, 2), after=0))
    assert events[0] == Missed(7, Lost(1, 2, "t", 5, 6, 2))
    assert arrived(events) == [3, 4]
    assert reader.poll is not None
    assert reader.poll.acknowledged == 2


def test_an_eviction_of_what_had_come_is_no_loss() -> None:
    reader = reading()
    reader.get(batch(1, 2))
    events = reader.get(batch(4, 4, Lost(1, 3, "t", 1, 3, 3), after=0))
    assert events[0] == Missed(7, Lost(3, 3, "t", 3, 3, 1))
    assert arrived(events) == [4]


def test_a_window_that_is_full_asks_for_nothing_more_and_stays_alive() -> None:
    reader = reading(window=3)
    assert reader.poll is not None
    assert reader.poll.limit == 3
    reader.get(batch(1, 3))
    assert reader.poll.limit == 0
    reader.collector.done(AT, [3], 1.0)
    reader.send(1.02)
    assert (reader.poll.limit, reader.poll.acknowledged) == (1, 0)


def test_a_late_answer_brings_no_more_than_the_window_holds() -> None:
    reader = reading(window=3)
    assert arrived(reader.get(batch(1, 2))) == [1, 2]
    late = batch(6, 9, Lost(3, 5, "t", 3, 5, 3), after=2)
    assert arrived(reader.get(late)) == [6]
    reader.collector.done(AT, [1, 2, 6], reader.now)
    assert arrived(reader.get(batch(7, 9))) == [7, 8, 9]


def test_a_restarted_publisher_is_one_gap_and_its_messages_are_accepted() -> None:
    reader = reading()
    reader.get(batch(1, 3))
    assert reader.get(Refusal("unknown subscriber", 8)) == [Restarted(8)]
    assert reader.command is not None
    assert reader.command.batch.begins
    assert reader.command.batch.number == 2
    assert reader.get(Applied(NEXT, 2)) == []
    assert arrived(reader.get(batch(1, 2, position=NEXT))) == [1, 2]
    reader.collector.done(AT, [1], 1.0)
    reader.collector.done(NEXT, [1], 1.0)


def test_a_second_restart_before_the_first_was_recovered_from_is_told_too() -> None:
    reader = reading()
    reader.get(Refusal("unknown subscriber", 8))
    assert reader.get(Applied(Position(9, 1), 2)) == [Restarted(9)]


def test_a_mailbox_that_was_removed_is_one_gap_of_the_same_epoch() -> None:
    reader = reading()
    assert reader.get(Refusal("unknown subscriber", 7)) == [Forgotten(7)]
    assert reader.get(Applied(Position(7, 2), 2)) == []


def test_answers_from_before_a_restart_change_nothing() -> None:
    reader = reading()
    old = reader.poll
    assert old is not None
    reader.get(Refusal("unknown subscriber", 8))
    collector = reader.collector
    assert collector.answered(old, batch(1, 2), 0.0) == []
    assert collector.answered(old, Refusal("unknown subscriber", 8), 0.0) == []
    reader.get(Applied(NEXT, 2))
    assert collector.answered(old, batch(1, 2), 0.0) == []
    assert collector.position == NEXT


@pytest.mark.parametrize("reason", ["taken over", "no room", "beyond"])
def test_a_mailbox_that_is_not_its_own_ends_it_once(reason: Any) -> None:
    reader = reading()
    assert reader.get(Refusal(reason, 7)) == [Ended(reason)]
    assert reader.get(Refusal(reason, 7)) == []
    assert (reader.collector.active, reader.collector.ended, reader.send(99.0)) == (False, True, [])


def test_one_batch_is_in_flight_and_the_last_word_wins_behind_it() -> None:
    reader = Reader()
    for _ in range(3):
        reader.collector.subscribe("u", "k")
        reader.collector.unsubscribe("u", "k")
    reader.collector.subscribe("v")
    assert not [each for each in reader.send() if isinstance(each, CommandRequest)]
    reader.get(Applied(AT, 1))
    assert reader.command is not None
    assert [(each.topic, each.subscribe) for each in reader.command.batch.commands] == [
        ("u", False),
        ("v", True),
    ]
    assert not reader.command.batch.begins
    reader.get(Applied(AT, 1))
    assert not reader.collector.settled
    reader.get(Applied(AT, 2))
    assert reader.collector.settled


def test_many_subscriptions_are_said_in_a_series_of_batches() -> None:
    reader = Reader()
    reader.get(batch(1, 0))
    for number in range(25_000):
        reader.collector.subscribe("t", str(number))
    seen = []
    for number in range(1, 5):
        assert reader.command is not None
        said = reader.command.batch
        seen.append((len(said.commands), said.begins, said.ends))
        reader.get(Applied(AT, number))
    assert seen == [(1, True, True), (10_000, False, False), (10_000, False, False), (5_000, False, False)]
    reader.get(Refusal("unknown subscriber", 8))
    seen = []
    for number in range(5, 8):
        assert reader.command is not None
        said = reader.command.batch
        seen.append((len(said.commands), said.begins, said.ends))
        reader.get(Applied(NEXT, number))
    assert seen == [(10_000, True, False), (10_000, False, False), (5_001, False, True)]
    assert reader.collector.settled


def test_a_batch_that_was_outdated_is_said_again_with_a_higher_number() -> None:
    reader = Reader()
    reader.get(Outdated(AT, 4))
    assert reader.command is not None
    assert reader.command.batch.number == 5


def test_a_request_without_an_answer_is_repeated_with_growing_pauses() -> None:
    reader = reading(hold=1.0, patience=2.0, pause=0.1, longest_pause=0.25)
    sent_at: list[float] = []
    while len(sent_at) < 5:
        deadline = reader.collector.next_deadline()
        assert deadline is not None
        reader.collector.tick(deadline)
        if reader.send(deadline):
            sent_at.append(round(deadline, 2))
    assert sent_at == [3.1, 6.3, 9.55, 12.8, 16.05]
    reader.get(batch(1, 1))
    assert reader.poll is not None
    assert reader.poll.after == 1


def test_a_request_that_cannot_be_sent_is_repeated_after_a_pause() -> None:
    reader = reading(pause=0.5)
    assert reader.poll is not None
    reader.collector.failed(reader.poll, 0.0)
    assert reader.send(0.4) == []
    assert len(reader.send(0.5)) == 1


def test_a_silent_publisher_is_told_once_until_it_is_heard_again() -> None:
    reader = reading(lost=4.0)
    assert reader.collector.tick(3.9) == []
    assert reader.collector.tick(4.0) == [Silent(4.0)]
    assert reader.collector.tick(9.0) == []
    reader.collector.heard(10.0)
    assert reader.collector.tick(13.9) == []
    assert reader.collector.tick(14.0) == [Silent(4.0)]


def test_a_process_that_stood_still_takes_no_publisher_for_silent_before_it_has_listened_again() -> None:
    reader = reading(lost=4.0)
    assert reader.collector.tick(60.0) == []
    assert reader.collector.tick(63.9) == []
    assert reader.collector.tick(64.0) == [Silent(4.0)]


def test_a_process_that_is_always_late_finds_a_silent_publisher_nevertheless() -> None:
    reader = reading(lost=4.0)
    assert [reader.collector.tick(now) for now in (5.0, 10.0)] == [[], [Silent(5.0)]]


def test_it_ends_in_good_order() -> None:
    reader = reading()
    reader.get(batch(1, 2))
    reader.collector.unsubscribe("t")
    reader.send()
    reader.get(Applied(AT, 2))
    assert (reader.collector.settled, reader.collector.active) == (True, True)
    reader.collector.done(AT, [1, 2], 1.0)
    reader.send(1.02)
    assert reader.collector.active
    reader.get(batch(3, 2))
    assert not reader.collector.active
    assert reader.send(99.0) == []


def test_what_was_never_held_changes_nothing() -> None:
    reader = reading()
    reader.get(batch(1, 2))
    reader.collector.done(AT, [3], 0.0)
    assert reader.collector.pending == 2


@pytest.mark.parametrize(
    "options",
    [{"hold": 0}, {"hold": 9}, {"patience": 0}, {"pause": 0}, {"pause": 9}, {"delay": -1}, {"window": 0}],
)
def test_numbers_that_cannot_go_together_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a collector"):
        Collector(mailbox(), 0.0, **options)
