"""What the answer to the request for a link says of the link."""

from __future__ import annotations

import pytest

from pzc.agents.client.pending import Pending
from pzc.agents.notifications.links.reader_transports import LinkOver, opened
from pzc.protocol.errors import PeerLost
from pzc.protocol.peer import Peer
from pzc.transport.transport import Disconnected


@pytest.fixture
def pending() -> Pending:
    return Pending(Peer("tcp://127.0.0.1:1", "PZC01", "ab" * 16, 1, "p", "", 0, {}), None, 1.0)


def test_a_connection_that_is_lost_meanwhile_is_no_word_of_the_publisher(pending: Pending) -> None:
    pending.recover(PeerLost("the connection was lost"))
    with pytest.raises(Disconnected, match="was lost"):
        opened(pending.peer, pending)


def test_a_refusal_of_the_publisher_ends_the_link(pending: Pending) -> None:
    pending.fail(PeerLost("link 12345678 has ended at its publisher"))
    with pytest.raises(LinkOver, match="has ended"):
        opened(pending.peer, pending)
