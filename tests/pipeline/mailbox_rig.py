"""Tables of what publishers publish, by a recorder and a run; all work is done in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pzc import Agent, Policy, Protocol, mailbox
from pzc.pipeline.decoding.decode import Decoder
from pzc.pipeline.tables.batches import Batch, Settings
from pzc.pipeline.tables.follow import FOLDER, follow
from pzc.pipeline.tables.run import Pace
from pzc.pipeline.tables.work import Inline
from pzc.protocol.codec import Message
from pzc.protocol.keyring import Keyring

from tests.contract.rigs import tables
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Hand
from tests.pipeline.publishers import PATIENCE, await_

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

    def __init__(self, tables: Path, *hands: Hand, messages: int = 10_000) -> None:
        self.tables, self.journal = tables, tables / FOLDER
        self.agents = [hand.ask("endpoint") for hand in hands]
        self.policy: Policy = mailbox(messages, name=NAME)
        self.made: list[Batch] = []

    def open(self) -> None:
        """Open the mailboxes, as a run before would have done."""
        with Agent(protocol=Protocol(KEY)) as agent:
            for publisher in self.agents:
                agent.subscribe(publisher, "*", ignore, policy=self.policy, raw=True, manual_ack=True)

    def follow(
        self, key: str = KEY, decoder: type[Decoder] = Decoder, on_batch: Any = None, **how: Any
    ) -> None:
        storage = how.pop("storage", None)
        pace = replace(
            Pace(every=EVERY), **{name: how.pop(name) for name in ("once", "stop", "every") if name in how}
        )
        settings = Settings(decoder(Keyring.from_key(key), self.journal), **how)
        follow(
            [(agent, "*") for agent in self.agents], self.journal, self.tables, self.policy, settings,
            Inline(), on_batch or self.made.append, pace, storage=storage,
        )  # fmt: skip

    def once(self, **how: Any) -> list[Batch]:
        """Take what the mailboxes hold; the batches of it."""
        before = len(self.made)
        self.follow(once=True, **how)
        return self.made[before:]

    @contextmanager
    def following(self) -> Iterator[None]:
        """Take what comes."""
        stop = threading.Event()
        thread = threading.Thread(target=self.follow, kwargs={"stop": stop})
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
