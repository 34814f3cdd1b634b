from __future__ import annotations

import pytest

from pzc import Refused, Server

from tests.contract.rigs import generating
from tests.contract.rigs.generating import Reader, error_of

source, server, reader = generating.source, generating.server, generating.reader


def test_a_stream_that_may_not_be_held_is_not_kept(
    reader: Reader, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise Refused("it holds too much")

    monkeypatch.setattr(server._answering.presence, "hold", full)
    answer = reader.ask("exec", name="count", method="__call__", args=())
    assert error_of(answer) == "Refused"
    assert server.statistics()["streams"] == 0
