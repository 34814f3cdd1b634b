"""The publisher's end of a mailbox, without a publisher."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from pzc.agents.notifications.links.mailbox_subscriber import MailboxSubscriber
from pzc.delivery.keep_queue import KeepQueue
from pzc.protocol.codec import Codec
from pzc.protocol.ids import MessageIds
from pzc.protocol.message import Identity
from pzc.protocol.records import Record, Records
from pzc.shm.ring import Ring


class Asked(KeepQueue[Record]):
    """Notes whether its lock was held when it was asked for its length."""

    def __init__(self, lock: threading.RLock) -> None:
        super().__init__()
        self._own, self.held = lock, list[bool]()

    def __len__(self) -> int:
        with ThreadPoolExecutor(1) as other:
            self.held.append(not other.submit(self._try).result())
        return super().__len__()

    def _try(self) -> bool:
        got = self._own.acquire(blocking=False)
        if got:
            self._own.release()
        return got


def test_whoever_sends_looks_at_the_queue_with_the_lock() -> None:
    lock = threading.RLock()
    records = Records(Codec(None), "a" * 32, MessageIds(1))
    subscriber = MailboxSubscriber(
        "link", Identity("", "agent"), True, lock, Ring(1), lambda _: False, time.monotonic(), "", 1, None,
        records, 1,
    )  # fmt: skip
    queue = subscriber.queue = Asked(lock)
    subscriber.flush()
    assert queue.held == [True]
