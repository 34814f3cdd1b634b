"""Direct calls inside one process mean what they mean elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from pzc import LocalProtocolError, Protocol, Server

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied

LIMIT = 300_000  # above what the shortest way of a call takes, which has a limit of its own


class Mirror:
    """Small or large contents both ways."""

    def echo(self, content: Any) -> int:
        return len(content)

    def make(self, size: int) -> bytes:
        return bytes(size)

    def make_text(self, size: int) -> str:
        return "x" * size

    def make_list(self, size: int) -> list[bytes]:
        return [bytes(size)]


def limited() -> Protocol:
    protocol = Protocol(KEY)
    protocol.codec.max_content = LIMIT
    return protocol


@pytest.mark.parametrize("transport", ["auto", "tcp"])
@pytest.mark.parametrize("content", [bytes(LIMIT + 1), "x" * (LIMIT + 1)], ids=["bytes", "text"])
def test_what_is_too_large_for_the_wire_is_too_large_for_a_direct_call(transport: str, content: Any) -> None:
    with Server(Mirror(), protocol=limited()) as server:
        with proxied(server.rep_endpoint, protocol=limited(), transport=transport, timeout=TIMEOUT) as proxy:
            for _ in range(5):  # it proves to be quick
                assert proxy.echo(content[:10]) == 10
            with pytest.raises(LocalProtocolError, match=f"the limit is {LIMIT}"):
                proxy.echo(content)
            assert proxy.echo(content[:10]) == 10
