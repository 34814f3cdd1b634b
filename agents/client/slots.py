"""Slots: what one proxy connected to the signals of its remote object, and who iterates over one."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial

from ...delivery.policies import Policy, drop
from ...protocol.errors import AgentClosed
from ...transport.executor import STALLED_CALLBACKS, Executor
from ...transport.helpers import aside
from ...transport.loop import Loop
from ..notification import Notification
from ..notifications.subscription import Subscription
from ..signals import Connected, Slot, SlotList, check_slot

SLOT_POLICY = drop(10_000)
"""Default policy of a connected slot."""


class Slots:
    """Slots by signal and policy, one subscription each; safe from any thread.

    Args:
        subscribe: gives the subscription to a signal, by its name.
    """

    def __init__(self, subscribe: Callable[..., Subscription]) -> None:
        self._subscribe = subscribe
        self._executor = Executor("pzc-slots", spare=STALLED_CALLBACKS)
        self._lock = threading.Lock()
        self._signals: dict[tuple[str, Policy], tuple[SlotList, Subscription]] = {}
        self._closed = False

    def connect(self, name: str, slot: Slot, policy: Policy | None) -> Callable[[], None]:
        """Call ``slot`` at every emission of a remote signal; returns once the server confirmed.

        Returns:
            What undoes that, unless the slot was connected again since, or before.

        Raises:
            TypeError: when the slot cannot be called, or is a coroutine function.
            CallTimeout, PeerLost: as `Agent.subscribe`.
            AgentClosed: after `close`, or when that came meanwhile.
        """
        check_slot(slot)
        key = (name, policy or SLOT_POLICY)
        with self._lock:
            if self._closed:
                raise AgentClosed("the proxy was closed")
            entry = self._signals.get(key)
            if entry is None:
                slots = SlotList()

                def call(notification: Notification) -> None:
                    slots.call(tuple(notification.content))

                subscription = self._subscribe(name, call, policy=key[1], executor=self._executor)
                entry = self._signals[key] = (slots, subscription)
            known = slot in entry[0].slots
            put = entry[0].put(slot)
        return _nothing if known else partial(self._take_back, key, entry, put)

    def _take_back(
        self, key: tuple[str, Policy], entry: tuple[SlotList, Subscription], put: Connected
    ) -> None:
        with self._lock:
            entry[0].take_back(put)
            if entry[0].slots or self._signals.get(key) is not entry:
                return
            del self._signals[key]
        entry[1].close()

    def disconnect(self, name: str, slot: Slot | None) -> None:
        """Stop calling ``slot``, or all slots of a signal.

        Raises:
            ValueError: when the slot was not connected here.
        """
        with self._lock:
            mine = [(key, entry) for key, entry in self._signals.items() if key[0] == name]
            holders = [entry[0] for _, entry in mine if slot is None or slot in entry[0].slots]
            if slot is not None and not holders:
                raise ValueError(f"{slot!r} is not connected to {name} through this proxy")
            for slots in holders:
                slots.disconnect(slot)
            empty = [key for key, entry in mine if not entry[0].slots]
            subscriptions = [self._signals.pop(key)[1] for key in empty]
        for subscription in subscriptions:
            subscription.close()

    @property
    def names(self) -> list[str]:
        """The signals to which slots are connected."""
        with self._lock:
            return sorted({name for name, _ in self._signals})

    def close(self) -> None:
        """Close every subscription; after that no slot starts."""
        self._closed = True  # first: whoever waits to connect gives up
        with self._lock:
            subscriptions = [subscription for _, subscription in self._signals.values()]
            self._signals.clear()
        for subscription in subscriptions:
            subscription.close()
        self._executor.close()


class Arriving(Iterator[Notification]):
    """Notifications of a remote signal, until the proxy is closed. Dropping it ends the subscription.

    Args:
        loop: of the proxy.
        subscription: to the signal.
    """

    def __init__(self, loop: Loop, subscription: Subscription) -> None:
        self._subscription = subscription
        self._end = weakref.finalize(self, aside, loop, subscription.close)
        self._end.atexit = False

    def __next__(self) -> Notification:
        return next(self._subscription)

    def close(self) -> None:
        """End the subscription. Again: no effect."""
        self._end.detach()
        self._subscription.close()


def _nothing() -> None:
    return None
