from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pzc.delivery.flows import Flow, Verdict
from pzc.delivery.policies import Policy, block, drop, latest, mailbox
from pzc.protocol.errors import ConfigError, LocalProtocolError, PolicyRefused

from tests.effort import many

BOUNDS = st.integers(1, 4)
LOSSY = st.builds(drop, BOUNDS) | st.builds(latest, BOUNDS)
ANY = LOSSY | BOUNDS.map(lambda slots: block(slots=slots))
FAR = 1_000_000


class Message:
    """Equal to every other one, so that only identity tells two apart."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message)

    __hash__ = None  # type: ignore[assignment]


class Publisher(RuleBasedStateMachine):
    """A flow beside plain lists; the reader learns of losses only by what it is told."""

    @initialize(policy=ANY)
    def start(self, policy: Policy) -> None:
        self.flow: Flow[Message] = Flow(policy)
        self.kept: list[Message] = []
        self.outstanding = self.offered = self.sent = self.told = 0
        self.lost: set[int] = set()
        self.position = 0  # the reader has got, or was told of, everything up to here

    @property
    def full(self) -> bool:
        waits = self.flow.policy.name == "block"
        return waits and self.outstanding + len(self.kept) >= self.flow.policy.bound

    def went(self, number: int) -> None:
        """The reader gets a message, and with it exactly the losses between it and the one before."""
        self.sent += 1
        self.outstanding += 1
        lost = self.flow.lost()
        self.told += lost
        assert self.position + lost + 1 == number
        self.position = number

    def dropped(self, messages: list[Message]) -> None:
        self.lost |= {message.number for message in messages}

    @rule(ready=st.booleans())
    def offer(self, ready: bool) -> None:
        verdict = self.flow.verdict(ready)
        assert (verdict is Verdict.WAIT) is self.full
        if verdict is Verdict.WAIT:
            return
        assert (verdict is Verdict.SEND) is (ready and not self.kept)
        self.offered += 1
        message = Message(self.offered)
        if verdict is Verdict.SEND:
            self.flow.send()
            self.went(message.number)
        else:
            self.keep(message, verdict)

    def keep(self, message: Message, verdict: Verdict) -> None:
        policy, full = self.flow.policy, len(self.kept) == self.flow.policy.bound
        assert (verdict is Verdict.DROP) is (policy.name == "drop" and full)
        expected: list[Message] = []
        if verdict is Verdict.DROP:
            expected = [message]
        else:
            if full and policy.name == "latest":
                expected = [self.kept.pop(0)]
            self.kept.append(message)
        removed = self.flow.keep(message)
        assert [id(each) for each in removed] == [id(each) for each in expected]
        self.dropped(expected)

    @rule()
    def pass_over(self) -> None:
        self.offered += 1
        self.flow.drop()
        self.lost.add(self.offered)

    @rule()
    def take(self) -> None:
        first = self.flow.peek()
        message = self.flow.take()
        assert message is first
        blocked = self.flow.policy.name == "block" and self.outstanding >= self.flow.policy.bound
        if message is None:
            assert blocked or not self.kept
        else:
            assert not blocked
            assert message is self.kept.pop(0)
            self.went(message.number)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        message = self.kept.pop(data.draw(st.integers(0, len(self.kept) - 1)))
        assert self.flow.discard(message)
        assert not self.flow.discard(message)
        self.dropped([message])

    @precondition(lambda self: self.outstanding)
    @rule()
    def acknowledge(self) -> None:
        self.outstanding -= 1
        self.flow.acknowledge()

    @rule()
    def heartbeat(self) -> None:
        lost = self.flow.lost()
        assert not (self.kept and lost)
        self.told += lost
        self.position += lost

    @rule(policy=ANY)
    def change(self, policy: Policy) -> None:
        removed = self.flow.change(policy)
        fitting = self.kept
        if policy.name == "drop":
            fitting = self.kept[: policy.bound]
        elif policy.name == "latest":
            fitting = self.kept[-policy.bound :]
        assert {each.number for each in removed} == {each.number for each in self.kept} - {
            each.number for each in fitting
        }
        self.kept = fitting
        self.dropped(removed)

    @invariant()
    def every_message_was_sent_or_is_kept_or_dropped(self) -> None:
        flow = self.flow
        assert self.sent + flow.pending + flow.dropped == self.offered
        assert flow.outstanding == self.outstanding
        assert [id(each) for each in flow.kept()] == [id(each) for each in self.kept]

    @invariant()
    def every_drop_is_told_once(self) -> None:
        assert self.told <= self.flow.dropped == len(self.lost)
        if not self.kept:
            assert self.position + self.flow.dropped - self.told == self.offered

    def teardown(self) -> None:
        if not hasattr(self, "flow"):
            return
        self.change(drop(FAR))
        while self.kept:
            self.take()
        self.heartbeat()
        assert (self.told, self.position) == (len(self.lost), self.offered)


TestPublisher = Publisher.TestCase
TestPublisher.settings = settings(max_examples=many(150), stateful_step_count=40)


class Window(RuleBasedStateMachine):
    """A block whose policy stays: however it is used, its window holds."""

    @initialize(bound=BOUNDS, window=st.none() | BOUNDS)
    def start(self, bound: int, window: int | None) -> None:
        self.window = window or bound
        self.flow: Flow[int] = Flow(block(slots=bound), window)

    @rule()
    def send(self) -> None:
        if self.flow.pending or self.flow.outstanding >= self.window:
            with pytest.raises(LocalProtocolError):
                self.flow.send()
        else:
            self.flow.send()

    @rule()
    def keep(self) -> None:
        if self.flow.outstanding + self.flow.pending >= self.window:
            with pytest.raises(LocalProtocolError):
                self.flow.keep(0)
        else:
            assert self.flow.keep(0) == []

    @rule()
    def take(self) -> None:
        self.flow.take()

    @precondition(lambda self: self.flow.outstanding)
    @rule()
    def acknowledge(self) -> None:
        self.flow.acknowledge()

    @invariant()
    def no_more_than_the_window_is_outstanding(self) -> None:
        assert self.flow.outstanding + self.flow.pending <= self.window
        assert self.flow.dropped == 0


TestWindow = Window.TestCase
TestWindow.settings = settings(max_examples=many(60), stateful_step_count=40)


def publish(flow: Flow[int], first: int, last: int, ready: bool = False) -> None:
    for number in range(first, last + 1):
        if flow.verdict(ready) is Verdict.SEND:
            flow.send()
        else:
            flow.keep(number)


def test_drop_keeps_the_first() -> None:
    flow: Flow[int] = Flow(drop(3))
    publish(flow, 1, 10)
    assert (flow.kept(), flow.dropped) == ([1, 2, 3], 7)


def test_latest_keeps_the_newest() -> None:
    flow: Flow[int] = Flow(latest(3))
    publish(flow, 1, 10)
    assert (flow.kept(), flow.dropped) == ([8, 9, 10], 7)


@pytest.mark.parametrize("slots", [1, 4, 32])
@pytest.mark.parametrize("ready", [True, False])
def test_a_block_lets_exactly_its_slots_pass_and_one_more_for_each_that_is_done(
    slots: int, ready: bool
) -> None:
    flow: Flow[int] = Flow(block(slots=slots))
    publish(flow, 1, slots, ready)
    assert flow.verdict(ready) is Verdict.WAIT
    while flow.take() is not None:
        assert flow.verdict(ready) is Verdict.WAIT
    flow.acknowledge()
    assert flow.verdict(ready) is not Verdict.WAIT


def test_the_window_of_a_block_may_be_smaller_than_its_slots() -> None:
    flow: Flow[int] = Flow(block(slots=32), window=2)
    publish(flow, 1, 2, ready=True)
    assert flow.verdict(True) is Verdict.WAIT


def test_a_lossy_flow_never_waits() -> None:
    flow: Flow[int] = Flow(latest(), window=1)
    publish(flow, 1, 1000, ready=True)
    assert (flow.outstanding, flow.verdict(True), flow.verdict(False)) == (1000, Verdict.SEND, Verdict.KEEP)


def test_a_new_message_does_not_overtake_a_kept_one() -> None:
    flow: Flow[int] = Flow(drop(3))
    flow.keep(1)
    assert flow.verdict(True) is Verdict.KEEP
    with pytest.raises(LocalProtocolError, match="1 kept"):
        flow.send()


def test_losses_are_told_with_the_message_behind_them() -> None:
    flow: Flow[int] = Flow(drop(2))
    publish(flow, 1, 5)
    told = []
    while (number := flow.take()) is not None:
        told.append((number, flow.lost()))
    flow.send()
    told.append((6, flow.lost()))
    assert told == [(1, 0), (2, 0), (6, 3)]


def test_losses_behind_the_last_message_are_told_by_a_heartbeat() -> None:
    flow: Flow[int] = Flow(drop(1))
    publish(flow, 1, 3)
    assert flow.lost() == 0
    flow.take()
    assert [flow.lost(), flow.lost(), flow.lost()] == [0, 2, 0]


def test_a_heartbeat_tells_losses_behind_a_kept_message_that_went_without_any() -> None:
    flow: Flow[int] = Flow(drop(1))
    flow.keep(1)
    flow.take()
    flow.drop()
    assert flow.lost() == 1


def test_losses_that_nobody_asked_for_are_told_with_a_later_message() -> None:
    flow: Flow[int] = Flow(drop(1))
    publish(flow, 1, 2)
    flow.take()
    flow.send()
    assert flow.lost() == 1


def test_what_no_longer_fits_goes_by_the_new_policy() -> None:
    flow: Flow[int] = Flow(drop(4))
    publish(flow, 1, 4)
    assert flow.change(latest(3)) == [1]
    assert flow.change(drop(1)) == [3, 4]
    assert (flow.kept(), flow.dropped, flow.policy) == ([2], 3, drop(1))


def test_a_flow_that_begins_to_block_counts_what_is_under_way() -> None:
    flow: Flow[int] = Flow(drop())
    publish(flow, 1, 3, ready=True)
    assert flow.change(block(slots=2)) == []
    flow.acknowledge()
    assert flow.verdict(True) is Verdict.WAIT
    flow.acknowledge()
    assert flow.verdict(True) is Verdict.SEND


def test_a_flow_that_begins_to_block_drops_nothing_that_it_kept() -> None:
    flow: Flow[int] = Flow(drop())
    publish(flow, 1, 3)
    assert flow.change(block(slots=1)) == []
    assert [flow.peek(), flow.take(), flow.peek(), flow.take()] == [1, 1, None, None]
    flow.acknowledge()
    assert (flow.take(), flow.dropped) == (2, 0)


def test_an_acknowledgement_of_nothing_is_a_defect() -> None:
    with pytest.raises(LocalProtocolError, match="not sent"):
        Flow[int](drop()).acknowledge()


def test_a_flow_cannot_be_a_mailbox() -> None:
    with pytest.raises(PolicyRefused):
        Flow[int](mailbox())


def test_a_flow_that_cannot_become_a_mailbox_stays_as_it_was() -> None:
    flow: Flow[int] = Flow(drop(1))
    with pytest.raises(PolicyRefused):
        flow.change(mailbox())
    assert flow.policy == drop(1)


def test_a_window_below_one_message_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 1 message, not 0"):
        Flow[int](block(), window=0)


def test_a_place_is_entered_while_there_is_room_and_nothing_is_kept() -> None:
    flow: Flow[int] = Flow(block(slots=2))
    assert [flow.enter() for _ in range(3)] == [True, True, False]
    flow.acknowledge(2)
    flow.keep(1)
    assert not flow.enter()
    with pytest.raises(LocalProtocolError):
        flow.acknowledge()
