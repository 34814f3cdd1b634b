"""Processes that tell a registry of themselves, as the participants of discovery do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable

from pzc import Protocol
from pzc.agents.naming.registering import Registering
from pzc.discovery.datagrams import Reader, write
from pzc.discovery.records import Advertise, AgentRecord, Announcement, Heartbeat, mixed
from pzc.transport import loops

KEY = "correct horse battery staple"
PATIENCE = 20.0
"""Seconds after which something counts as never."""


def said(process: bytes, sequence: int, name: str, key: object, local: bool, host: str = "") -> list[bytes]:
    """A heartbeat and one agent, as bytes."""
    address = "tcp://127.0.0.1:5555" if local else "tcp://10.0.0.7:5555"
    record = AgentRecord(
        number=1, revision=1, kind="agent", name=name, agent="a" * 32, epoch=1, started=1, addresses=(address,),
        pub_addresses=(), type="", scope="all", dialects=("PZC01",), host=host, pid=os.getpid(),
    )  # fmt: skip
    common = (process, 1, sequence, int(time.time() * 1000), "", 0 if local else 65_535, 1, 1, mixed(1))
    found: list[Announcement] = [Heartbeat(*common), Advertise(*common, (record,))]
    return [write(each, key) for each in found]  # pyright: ignore[reportArgumentType]


class Registrant:
    """One process as far as a registry can tell; its registering runs on this process's loop."""

    def __init__(self, endpoint: str, name: str, protocol: Protocol | None = None) -> None:
        protocol = protocol or Protocol(KEY)
        ring = protocol.codec.keyring
        self.name = name
        self.process = os.urandom(16)
        self.datagrams: list[bytes] = []
        self.known: set[bytes] = set()
        self.gone: list[bytes] = []
        self.silences = self.returns = 0
        self._reader = Reader(ring)
        self._key = None if ring is None else ring.active
        self.wholes = 0
        self._sequence = 0
        self._changed = threading.Condition()
        self._loop = loops.acquire()
        self.registering = Registering(self._loop, protocol, endpoint, self)
        self.registering.graph.listen(self._notify)

    def start(self) -> Registrant:
        self.registering.start()
        return self

    def beat(self, local: bool) -> list[bytes]:
        return self._said(local)[:1]

    def whole(self, local: bool) -> list[bytes]:
        self.wholes += local
        return self._said(local)

    def _said(self, local: bool) -> list[bytes]:
        self._sequence += 1
        return said(self.process, self._sequence, self.name, self._key, local)

    def heard(self, datagrams: Collection[bytes]) -> None:
        self.datagrams += datagrams
        told = map(self._reader.read, datagrams)
        self.known |= {each.process for each in told if isinstance(each, Announcement)}
        self._notify()

    def lost(self, processes: Collection[bytes]) -> None:
        self.gone += processes
        self.known -= set(processes)
        self._notify()

    def silent(self) -> None:
        self.silences += 1
        self._notify()

    def back(self) -> None:
        self.returns += 1
        self._notify()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE
        with self._changed:
            while not condition():
                assert time.monotonic() < until, (
                    f"never; state {self.registering.state}, error {self.registering.error}"
                )
                self._changed.wait(0.05)  # not everything that is waited for is notified

    def knows(self, other: Registrant) -> bool:
        return other.process in self.known

    def change(self, names: Iterable[str]) -> int:
        """Have one name after the other, before the loop comes to anything else; what was said until then."""

        def all_of_them() -> int:
            for self.name in names:
                self.registering.changed()
            return self.wholes

        return self._loop.run(all_of_them)

    def close(self) -> None:
        self.registering.close()
        loops.release(self._loop)
