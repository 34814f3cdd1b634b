"""What a mailbox keeps for a reader that is gone, and for how long."""

from __future__ import annotations

import time

from pzc import Agent, Protocol, mailbox
from pzc.testing import Timings

from tests.contract.acceptance import acceptance
from tests.contract.rigs.pairs import wait_until
from tests.contract.rigs.peers import KEY
from tests.contract.rigs.processes import Workers

KEPT = 1.5
"""Seconds for which a mailbox is kept without its reader."""


@acceptance("R3")
def test_the_mailbox_of_a_dead_reader_is_kept_for_its_time_and_then_gone(workers: Workers) -> None:
    with Timings(mail_grace=0.2), Agent(protocol=Protocol(KEY)) as publisher:
        reader = workers.start()
        reader.ask("subscribe", "t", publisher.rep_endpoint, "t", mailbox(keep=KEPT), how="collect")
        publisher.publish("t", 0)
        assert reader.ask("wait_for", "t", "found") == [(1, 0)]
        reader.kill()
        died = time.monotonic()
        for number in range(100):
            publisher.publish("t", number)
        # The first one is not acknowledged when its reader dies soon enough.
        kept = [each["waiting"] for each in publisher.statistics()["mailboxes"]]
        assert kept in ([100], [101]) or time.monotonic() - died > KEPT / 2
        wait_until(lambda: publisher.statistics()["mailboxes"] == [])
        assert time.monotonic() - died > KEPT / 2
