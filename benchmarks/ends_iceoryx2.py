"""iceoryx2: shared memory for the payload, an event service that wakes a waiting reader; nothing signed.

A publisher whose readers have no room tries again and again (`RetryUntilDelivered`), so nothing is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.ends import ROUND_LIMIT, SMALL, Array, Reader, Setting, Take, Writer, late

SLOTS = {True: 1000, False: 16}
"""Payloads that a reader's queue holds, small ones and arrays."""

BORROWED = 2


def _services(setting: Setting) -> tuple[Any, Any, Any]:
    """The library, the payload's service, the event's service."""
    iox: Any = importlib.import_module("iceoryx2")
    iox.set_log_level(iox.LogLevel.Error)
    config = iox.config.default()
    config.global_cfg.root_path = iox.Path.new(setting.folder)
    config.global_cfg.prefix = iox.FileName.new(f"bench{setting.token}_")
    node = iox.NodeBuilder.new().config(config).create(iox.ServiceType.Ipc)
    slots = min(SLOTS[setting.size <= SMALL], max(2, (256 << 20) // setting.size))
    payload = (
        node.service_builder(iox.ServiceName.new("payload"))
        .publish_subscribe(iox.Slice[ctypes.c_uint8])
        .enable_safe_overflow(False)
        .history_size(0)
        .max_subscribers(setting.readers)
        .subscriber_max_buffer_size(slots)
        .subscriber_max_borrowed_samples(BORROWED)
        .payload_alignment(iox.Alignment.new(64))
        .open_or_create()
    )
    event = (
        node.service_builder(iox.ServiceName.new("event"))
        .event()
        .max_listeners(setting.readers)
        .open_or_create()
    )
    return iox, payload, event


def _bytes(sample: Any, size: int) -> Any:
    return (ctypes.c_uint8 * size).from_address(sample.payload_ptr)


class Iceoryx2Writer(Writer):
    """A publisher and a notifier."""

    def __init__(self, setting: Setting) -> None:
        iox, payload, event = _services(setting)
        self._size = setting.size
        self._publisher = (
            payload.publisher_builder()
            .initial_max_slice_len(setting.size)
            .backpressure_strategy(iox.BackpressureStrategy.RetryUntilDelivered)
            .create()
        )
        self._notifier = event.notifier_builder().create()
        self._services = payload, event

    def send(self, payload: Any) -> None:
        """Copy it into shared memory, send, and wake."""
        sample = self._publisher.loan_slice_uninit(self._size)
        view = np.frombuffer(_bytes(sample, self._size), np.uint8)
        view[:] = np.frombuffer(payload, np.uint8)
        sample.assume_init().send()
        self._notifier.notify()

    @contextlib.contextmanager
    def loan(self, count: int) -> Iterator[Array]:
        """Shared memory of the publisher."""
        sample = self._publisher.loan_slice_uninit(self._size)
        yield np.frombuffer(_bytes(sample, self._size), np.float64, count)
        sample.assume_init().send()
        self._notifier.notify()

    def close(self) -> None:
        """Delete both ports."""
        self._publisher.delete()
        self._notifier.delete()


class Iceoryx2Reader(Reader):
    """A subscriber, and a listener on which it waits: it does not poll."""

    def __init__(self, setting: Setting, address: str) -> None:
        iox, payload, event = _services(setting)
        self._size = setting.size
        self._second = iox.Duration.from_secs(1)
        self._subscriber = payload.subscriber_builder().create()
        self._listener = event.listener_builder().create()
        self._services = payload, event

    def read(self, take: Take, ready: Callable[[], object]) -> None:
        """See `Reader.read`."""
        deadline = time.monotonic() + ROUND_LIMIT
        ready()
        while time.monotonic() < deadline:
            while (sample := self._subscriber.receive()) is not None:
                if take(_bytes(sample, self._size)):
                    return
                del sample
            self._listener.timed_wait(self._second)
        raise late()

    def close(self) -> None:
        """Delete both ports."""
        self._subscriber.delete()
        self._listener.delete()
