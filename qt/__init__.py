"""Instruments in a Qt program: slots, and what a call answers, in the GUI thread.

::

    pzc.qt.connect(psu.voltage_changed, label.setNum)
    pzc.qt.call(psu.ramp, 3.0, done=label.setNum, failed=show_error)

Works with PySide6 and PyQt6: with the one that the program has imported, else with the one that is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..agents import Member
from ..delivery.policies import Policy
from ..protocol.errors import ConfigError
from ..protocol.shown import shown
from .connection import Connection
from .gui import gui

if TYPE_CHECKING:
    from ..agents import PendingCall

__all__ = ["Connection", "call", "connect"]


def connect(signal: Any, slot: Callable[..., object], *, policy: Policy | None = None) -> Connection:
    """Call ``slot`` in the GUI thread at every emission of a remote signal, in order.

    A GUI thread that is busy holds up nobody: up to 10 000 emissions wait for it, then the oldest is dropped
    and counted. After 10 ms of slots the user's events have their turn. A slot that fails is logged under
    ``pzc.qt``.

    Args:
        signal: of a proxy, or of anything reached through one, as ``psu.ch1.changed``.
        slot: a function, a method of a widget, or a bound Qt signal's ``emit``; gets as many of the values as
            it takes.
        policy: of the subscription; default drop(10 000).

    Returns:
        The connection; it lasts until it is closed, the application quits, or the slot's Qt object is
        deleted.

    Raises:
        ConfigError: for anything but a remote signal; when there is no application yet.
        MissingRequirement: without PySide6 or PyQt6.
        TypeError: for a slot that cannot be called.
        CallTimeout, PeerLost: as the signal's own ``connect``.
    """
    there = gui()
    if not isinstance(signal, Member):
        raise ConfigError(
            f"{shown(signal)} is no signal of a proxy, such as psu.voltage_changed; another kind of "
            "signal has a connect of its own"
        )
    made = Connection(there, signal, slot)
    made.open(policy)
    return made


def call(
    member: Any,
    *args: object,
    done: Callable[[Any], object] | None = None,
    failed: Callable[[BaseException], object] | None = None,
    **kwargs: object,
) -> PendingCall:
    """Call a remote method without waiting, and have what it answers in the GUI thread.

    Args:
        member: method of a proxy, as ``psu.ramp``, or one with options.
        args: of the method.
        done: gets the value.
        failed: gets the error; without it an error is logged under ``pzc.qt``.
        kwargs: of the method.

    Returns:
        The pending call, which can be cancelled: then neither is called.

    Raises:
        ConfigError: for anything but a remote method; when there is no application yet.
        MissingRequirement: without PySide6 or PyQt6.
    """
    if not callable(getattr(member, "future", None)):
        raise ConfigError(
            f"{shown(member)} is no method of a proxy, such as psu.ramp, which is not called here"
        )
    for name, callback in (("done", done), ("failed", failed)):
        if not (callback is None or callable(callback)):
            raise ConfigError(f"{name}={shown(callback)} cannot be used: expected a function")
    there = gui()
    pending: PendingCall = member.future(*args, **kwargs)

    def tell() -> None:
        if pending.cancelled():
            return
        error = pending.exception()
        if error is None:
            if done is not None:
                done(pending.result())
        elif failed is None:
            raise error
        else:
            failed(error)

    pending.add_done_callback(lambda _: there.post(tell))
    return pending
