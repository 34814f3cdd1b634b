"""Tables that are made straight from the mailboxes of publishers; all work is done in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pzc import Agent, Protocol
from pzc.pipeline.decoding.decode import Decoder
from pzc.pipeline.source.options import Options, read_options
from pzc.pipeline.tables.batches import Batch, Settings
from pzc.pipeline.tables.spool import QUICK, follow
from pzc.pipeline.tables.work import Inline
from pzc.protocol.codec import Message
from pzc.protocol.keyring import Keyring

from tests.contract.rigs import tables
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Hand
from tests.pipeline.source_rig import PATIENCE, await_

NAME = "tables"
"""Of the mailboxes."""

EVERY = 0.05


def ignore(notification: object) -> None:
    """Nothing."""


class Picky(Decoder):
    """Refuses the content 1.0; it learns nothing of a row, so that each of them is opened."""

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = [batch.slice(n, 1) for n in range(len(batch))]
        return pa.concat_batches([Decoder.decode(Picky(self.keyring, self.journal), row) for row in rows])

    def open(self, frames: Sequence[bytes], content_ref: str | None = None) -> tuple[Message, Any]:
        envelope, content = super().open(frames, content_ref)
        if content == 1.0:
            raise ValueError("one")
        return envelope, content


class Post:
    """A folder of tables that some publishers fill."""

    def __init__(self, tables: Path, *hands: Hand, **options: object) -> None:
        self.tables = tables
        self.agents = ",".join(hand.ask("endpoint") for hand in hands)
        self._given = {"agents": self.agents, "name": NAME} | {k: str(v) for k, v in options.items()}
        self.made: list[Batch] = []

    @property
    def options(self) -> Options:
        return read_options(self._given, streaming=True)

    def open(self) -> None:
        """Open the mailboxes, as a run before would have done."""
        options = self.options
        with Agent(protocol=Protocol(KEY)) as agent:
            for publisher, topic in options.targets:
                agent.subscribe(publisher, topic, ignore, policy=options.policy, raw=True, manual_ack=True)

    def follow(
        self, key: str = KEY, decoder: type[Decoder] = Decoder, on_batch: Any = None, **how: Any
    ) -> None:
        storage = how.pop("storage", None)
        pace = replace(QUICK, **{name: how.pop(name) for name in ("once", "stop", "every") if name in how})
        settings = Settings(decoder(Keyring.from_key(key), None), **how)
        follow(self.options, self.tables, settings, Inline(), on_batch or self.made.append, pace, storage)

    def once(self, **how: Any) -> list[Batch]:
        """Take what the mailboxes hold; the batches of it."""
        before = len(self.made)
        self.follow(once=True, **how)
        return self.made[before:]

    @contextmanager
    def following(self) -> Iterator[None]:
        """Take what comes."""
        stop = threading.Event()
        thread = threading.Thread(target=self.follow, kwargs={"stop": stop, "every": EVERY})
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def await_(self, rows: int) -> None:
        """Wait for so many rows of all batches."""
        await_(lambda: sum(batch.rows for batch in self.made) >= rows)

    def rows(self, name: str, *columns: str) -> list[Any]:
        """Values of one column, or tuples of several, in order."""
        return tables.rows(self.tables, name, *columns)

    def numbers(self, topic: str = "v") -> list[int]:
        found = self.rows("notifications", "topic", "sequence")
        return sorted(number for of, number in found if of == topic)
