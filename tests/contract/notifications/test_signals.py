from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pzc import ArgumentsRefused, ConfigError, Signal

from tests.contract.rigs.peers import run_threads


class Meter:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def show(self, value: Any) -> None:
        self.seen.append(value)

    def show_two(self, value: Any, old: Any) -> None:
        self.seen.append((value, old))


class Deaf(Exception):
    """An exception that is false, as one with an empty length would be."""

    def __bool__(self) -> bool:
        return False


def _raise(error: Exception) -> Callable[[Any], None]:
    def slot(value: Any) -> None:
        raise error

    return slot


def test_slots_are_called_in_the_order_in_which_they_were_connected() -> None:
    signal, order = Signal(), []
    for number in (3, 1, 2):
        signal.connect(functools.partial(order.append, number))
    signal.emit(0)
    assert order == [3, 1, 2]


def test_a_slot_connected_twice_is_called_once_and_keeps_its_place() -> None:
    signal, order = Signal(), []

    def first(value: Any) -> None:
        order.append("first")

    signal.connect(first)
    signal.connect(lambda _: order.append("second"))
    signal.connect(first)
    signal.emit(0)
    assert order == ["first", "second"]


def test_a_bound_method_connected_twice_is_one_slot() -> None:
    signal, meter = Signal(), Meter()
    signal.connect(meter.show)
    signal.connect(meter.show)
    signal.emit(5)
    assert meter.seen == [5]


def test_the_same_method_of_two_objects_is_two_slots() -> None:
    signal, one, other = Signal(), Meter(), Meter()
    signal.connect(one.show)
    signal.connect(other.show)
    signal.disconnect(one.show)
    signal.emit(5)
    assert (one.seen, other.seen) == ([], [5])


def test_slots_may_take_fewer_arguments() -> None:
    signal, got = Signal(), []
    signal.connect(lambda: got.append(()))
    signal.connect(lambda value: got.append((value,)))
    signal.connect(lambda value, old: got.append((value, old)))
    signal.connect(lambda value, old, other: got.append((value, old, other)))
    signal.connect(lambda *values: got.append(values))
    signal.emit(1, 2, 3)
    assert got == [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3)]


def test_what_is_not_emitted_is_none() -> None:
    signal, got = Signal(), []
    signal.connect(lambda *values: got.append(values))
    signal.emit()
    signal.emit(1)
    assert got == [(None, None, None), (1, None, None)]


def test_a_default_argument_takes_a_value() -> None:
    signal, got = Signal(), []
    signal.connect(lambda value, old="unset": got.append((value, old)))
    signal.emit(1, 2, 3)
    assert got == [(1, 2)]


def test_a_bound_method_takes_the_arguments_behind_self() -> None:
    signal, meter = Signal(), Meter()
    signal.connect(meter.show)
    signal.connect(meter.show_two)
    signal.emit(1, 2, 3)
    assert meter.seen == [1, (1, 2)]


def test_a_partial_takes_what_it_has_left() -> None:
    signal, got = Signal(), []

    def slot(name: str, value: Any) -> None:
        got.append((name, value))

    signal.connect(functools.partial(slot, "volts"))
    signal.emit(1, 2, 3)
    assert got == [("volts", 1)]


def test_a_builtin_method_is_a_slot() -> None:
    signal, got = Signal(), []
    signal.connect(got.append)
    signal.emit(1, 2, 3)
    assert got == [1]


def test_a_callable_object_is_a_slot() -> None:
    class Slot:
        got = ()

        def __call__(self, value: Any, old: Any) -> None:
            self.got = (value, old)

    signal, slot = Signal(), Slot()
    signal.connect(slot)
    signal.emit(1, 2, 3)
    assert slot.got == (1, 2)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="callable, not int"):
        Signal().connect(5)  # pyright: ignore[reportArgumentType]


def test_an_exception_reaches_the_emitter_after_every_slot_was_called() -> None:
    signal, meter = Signal(), Meter()
    signal.connect(_raise(ValueError("first")))
    signal.connect(meter.show)
    with pytest.raises(ValueError, match="first"):
        signal.emit(1)
    assert meter.seen == [1]


def test_of_two_exceptions_the_first_is_raised_and_the_second_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    signal = Signal()
    signal.connect(_raise(ValueError("first")))
    signal.connect(_raise(KeyError("second")))
    with caplog.at_level(logging.WARNING, "pzc.signals"), pytest.raises(ValueError, match="first"):
        signal.emit(1)
    (record,) = caplog.records
    assert record.exc_info
    assert isinstance(record.exc_info[1], KeyError)


def test_an_exception_that_is_false_is_raised_as_well() -> None:
    signal = Signal()
    signal.connect(_raise(Deaf()))
    with pytest.raises(Deaf):
        signal.emit(1)


def test_a_disconnected_slot_is_not_called() -> None:
    signal, meter = Signal(), Meter()
    signal.connect(meter.show)
    signal.disconnect(meter.show)
    signal.emit(1)
    assert (meter.seen, signal.slots) == ([], [])


def test_disconnect_without_a_slot_disconnects_all() -> None:
    signal, meter = Signal(), Meter()
    signal.connect(meter.show)
    signal.connect(print)
    signal.disconnect()
    assert signal.slots == []


def test_disconnecting_an_unknown_slot_is_an_error() -> None:
    signal, meter = Signal(), Meter()
    signal.connect(meter.show)
    with pytest.raises(ValueError, match="not connected"):
        signal.disconnect(print)
    assert signal.slots == [meter.show]


def test_disconnecting_all_of_none_is_no_error() -> None:
    signal = Signal()
    signal.disconnect()
    assert signal.slots == []


def test_a_slot_may_disconnect_itself_while_it_is_called() -> None:
    signal, meter = Signal(), Meter()

    def once(value: Any) -> None:
        meter.show(("once", value))
        signal.disconnect(once)

    signal.connect(once)
    signal.connect(meter.show)
    signal.emit(1)
    signal.emit(2)
    assert meter.seen == [("once", 1), 1, 2]


def test_a_slot_connected_during_an_emission_hears_the_next_one() -> None:
    signal, meter = Signal(), Meter()
    signal.connect(lambda _: signal.connect(meter.show))
    signal.emit(1)
    assert meter.seen == []
    signal.emit(2)
    assert meter.seen == [2]


def test_a_slot_may_emit_again() -> None:
    signal, meter = Signal(), Meter()
    signal.connect(lambda value: signal.emit(value - 1) if value else None)
    signal.connect(meter.show)
    signal.emit(3)
    assert meter.seen == [0, 1, 2, 3]


def test_threads_may_connect_disconnect_and_emit_at_once() -> None:
    signal, meter, done = Signal(), Meter(), threading.Event()
    signal.connect(meter.show)

    def come_and_go() -> None:
        own = Meter()
        for _ in range(500):
            signal.connect(own.show)
            signal.disconnect(own.show)

    def emit() -> None:
        for number in range(1_000):
            signal.emit(number)
        done.set()

    run_threads(emit, *[come_and_go] * 6)
    assert done.is_set()
    assert meter.seen == list(range(1_000))
    assert signal.slots == [meter.show]


class Silent:
    """A callable that does not tell its signature, as of Qt."""

    def __init__(self, takes: int, error: Exception | None = None) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.tried = 0
        self._takes = takes
        self._error = error

    def __call__(self, *values: Any) -> None:
        self.tried += 1
        if len(values) != self._takes:
            raise TypeError(f"emit() takes {self._takes} arguments ({len(values)} given)")
        self.seen.append(values)
        if self._error is not None:
            self._fail(self._error)

    @staticmethod
    def _fail(error: Exception) -> None:
        raise error

    @property
    def __signature__(self) -> Any:
        raise ValueError("no signature found")


@pytest.mark.parametrize("takes", [0, 1, 2, 3])
def test_a_slot_that_does_not_tell_how_many_values_it_takes_is_tried_once(takes: int) -> None:
    signal, slot = Signal(), Silent(takes)
    signal.connect(slot)
    signal.emit(1, 2, 3)
    assert (slot.tried, slot.seen) == (4 - takes, [(1, 2, 3)[:takes]])
    signal.emit(4, 5, 6)
    assert (slot.tried, slot.seen[1:]) == (5 - takes, [(4, 5, 6)[:takes]])


@pytest.mark.parametrize("error", [TypeError("an argument of its own work"), KeyError("volts")])
def test_what_such_a_slot_raises_by_itself_reaches_the_emitter_and_is_not_tried_again(
    error: Exception,
) -> None:
    signal, slot = Signal(), Silent(2, error)
    signal.connect(slot)
    for _ in range(2):
        with pytest.raises(type(error), match=str(error.args[0])):
            signal.emit(1, 2, 3)
    assert (slot.tried, len(slot.seen)) == (3, 2)


def test_a_slot_that_takes_no_number_of_values_raises_what_it_said_of_all() -> None:
    signal = Signal()
    signal.connect(Silent(9))
    with pytest.raises(TypeError, match="3 given"):
        signal.emit(1, 2, 3)


def test_a_builtin_that_takes_any_number_gets_all_values(capsys: pytest.CaptureFixture[str]) -> None:
    signal = Signal("value", "unit", "channel", "at")
    signal.connect(print)
    signal.emit(1, "V", 2, 3)
    assert capsys.readouterr().out == "1 V 2 3\n"


def test_values_are_put_in_the_order_that_the_signal_declares() -> None:
    signal, got = Signal("value", "unit", "channel"), []
    signal.connect(lambda *values: got.append(values))
    signal.emit(1, channel=3, unit="V")
    signal.emit(channel=3, unit="V", value=1)
    assert got == [(1, "V", 3)] * 2
    assert signal.names == ("value", "unit", "channel")


@pytest.mark.parametrize(
    ("values", "named"),
    [((1,), {}), ((1, "V", 2), {}), ((1,), {"uniit": "V"}), ((1, "V"), {"unit": "V"}), ((), {"unit": "V"})],
)
def test_what_a_signal_does_not_declare_is_refused_and_reaches_no_slot(
    values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    signal, meter = Signal("value", "unit"), Meter()
    signal.connect(meter.show)
    with pytest.raises(ArgumentsRefused, match="the signal carries value, unit, and was emitted with"):
        signal.emit(*values, **named)
    assert meter.seen == []


def test_a_signal_that_declares_nothing_takes_the_names_of_the_original() -> None:
    signal, got = Signal(), []
    signal.connect(lambda *values: got.append(values))
    signal.emit(1, other=3)
    assert got == [(1, None, 3)]
    with pytest.raises(ArgumentsRefused):
        signal.emit(1, 2, 3, 4)
    with pytest.raises(ArgumentsRefused):
        signal.emit(1, unit="V")


@pytest.mark.parametrize("names", [("value", "value"), ("1st",), ("",), ("a b",), (5,)])
def test_names_that_no_argument_can_have_are_refused(names: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match="cannot be a name of what a signal carries"):
        Signal(*names)


def test_a_signal_passes_on_to_one_that_declares_less() -> None:
    signal, other, got = Signal("value", "unit", "channel"), Signal("value", "unit"), []
    signal.connect(other.emit)
    other.connect(lambda *values: got.append(values))
    signal.emit(1, "V", 2)
    assert got == [(1, "V")]
