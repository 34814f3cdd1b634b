"""Tables that are made straight from the mailboxes of publishers, with the one session of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pzc import Agent, Protocol
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.source.options import read_options
from pzc.pipeline.spark import jobs
from pzc.pipeline.tables.batches import Batch, Settings
from pzc.pipeline.tables.feeds import MailboxFeed
from pzc.pipeline.tables.streaming import Following

from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Hand
from tests.pipeline.source_rig import PATIENCE, await_

NAME = "tables"
"""Of the mailboxes."""

EVERY = 0.05


def ignore(notification: object) -> None:
    """Nothing."""


def refuse_one(topic: str, content: object) -> str | None:
    """A check for which the content 1.0 is not good."""
    return "one" if content == 1.0 else None


class Post:
    """A folder of tables that some publishers fill."""

    def __init__(self, spark: Any, tables: Path, *hands: Hand, **options: object) -> None:
        self.spark, self.tables, self.options = spark, tables, options
        self.agents = ",".join(hand.ask("endpoint") for hand in hands)
        self.made: list[Batch] = []

    def open(self) -> None:
        """Open the mailboxes, as a run before would have done."""
        given = {"agents": self.agents, "name": NAME} | {k: str(v) for k, v in self.options.items()}
        options = read_options(given, streaming=True)
        with Agent(protocol=Protocol(KEY)) as agent:
            for publisher, topic in options.targets:
                agent.subscribe(publisher, topic, ignore, policy=options.policy, raw=True, manual_ack=True)

    def follow(self, on_batch: Any = None, key: str = KEY, check: Any = None, **how: Any) -> Following:
        feed = MailboxFeed(self.agents, NAME, options=self.options)
        settings = Settings(make_decoder(key, check=check), **how)
        return Following(self.spark, feed, self.tables, settings, on_batch or self.made.append)

    def once(self, **how: Any) -> list[Batch]:
        """Take what the mailboxes hold; the batches of it."""
        before = len(self.made)
        with self.follow(**how) as following:
            following.start(once=True)
            assert following.wait(PATIENCE), "the query has not ended in time"
        return self.made[before:]

    @contextmanager
    def following(self) -> Iterator[None]:
        """Take what comes."""
        with self.follow() as following:
            following.start(EVERY)
            yield

    def await_(self, rows: int) -> None:
        """Wait for so many rows of all batches."""
        await_(lambda: sum(batch.rows for batch in self.made) >= rows)

    def rows(self, name: Any, *columns: str) -> list[Any]:
        """Values of one column, or tuples of several, in order."""
        found = jobs.read_table(self.spark, self.tables, name).select(*columns).collect()
        return sorted((row[0] if len(columns) == 1 else tuple(row) for row in found), key=repr)

    def numbers(self, topic: str = "v") -> list[int]:
        found = self.rows("notifications", "topic", "sequence")
        return sorted(number for of, number in found if of == topic)
