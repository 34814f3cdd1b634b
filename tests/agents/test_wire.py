from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc import (
    FrameError,
    Protocol,
    ReplayedMessage,
    StaleMessage,
)
from pzc.protocol.codec import FRESH_MS
from pzc.protocol.frames import Kind
from pzc.protocol.ids import is_urn, parse_urn
from pzc.protocol.window import ReplayWindow
from pzc.transport import wire

from tests.contract.calls.test_wire import AGENT, PEER, PIZCO_ID, every, senders, texts

# --- format and parse, as the original's -------------------------------------------------------------


@every
@given(senders, texts, texts, st.none() | st.uuids(version=4).map(lambda value: value.urn))
def test_what_was_formatted_is_parsed(
    protocol: Protocol, sender: str, topic: str, content: str, msgid: str | None
) -> None:
    frames = protocol.format(sender, topic, content, msgid)
    assert len(frames) == 5
    assert all(type(frame) is bytes for frame in frames)
    found = protocol.parse(frames, check_sender=sender, check_msgid=msgid)
    assert found[:3] == (sender, topic, content)
    assert found[3] == msgid or (msgid is None and is_urn(found[3]))


@every
@pytest.mark.parametrize("msgid", [None, ""])
def test_a_message_without_given_id_gets_a_fresh_one(protocol: Protocol, msgid: str | None) -> None:
    found = {protocol.parse(protocol.format(AGENT, "topic", 1, msgid))[3] for _ in range(10)}
    assert len(found) == 10
    assert all(abs(parse_urn(each).ms - time.time() * 1000) < 60_000 for each in found)


def test_an_old_message_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = Protocol("a long secret of lab")
    frames = protocol.format(AGENT, "topic", 1)
    sent = parse_urn(frames[3].decode()).ms
    monkeypatch.setattr(wire, "now_ms", lambda: sent + FRESH_MS)
    assert protocol.parse(frames)[2] == 1
    monkeypatch.setattr(wire, "now_ms", lambda: sent + FRESH_MS + 1)
    with pytest.raises(StaleMessage):
        protocol.parse(frames)


# --- encode and open ---------------------------------------------------------------------------------


def test_a_request_and_its_reply_are_correlated_by_the_request_s_id() -> None:
    client, server = Protocol("a long secret of lab"), Protocol("a long secret of lab")
    request = server.open(client.encode(AGENT, "", 1, receiver=PEER), Kind.REQUEST, receiver=PEER)
    frames = server.encode(PEER, "", 2, reply_to=request.msgid, receiver=AGENT)
    reply = client.open(frames, Kind.REPLY, receiver=AGENT)
    assert (reply.msgid, client.content(reply)) == (request.msgid, 2)
    assert (request.epoch, reply.epoch) == (client.epoch, server.epoch)


def test_a_reply_is_refused_as_a_request() -> None:
    protocol = Protocol("a long secret of lab")
    with pytest.raises(FrameError):
        protocol.open(protocol.encode(AGENT, "", 2, reply_to=PIZCO_ID), Kind.REQUEST)


def test_opening_passes_time_offset_and_memory_on(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol, window = Protocol("a long secret of lab"), ReplayWindow()
    frames = protocol.encode(AGENT, "", 1, receiver=PEER)
    now = parse_urn(bytes(frames[3]).decode()).ms + 2 * FRESH_MS
    monkeypatch.setattr(wire, "now_ms", lambda: now)
    options: dict[str, Any] = {"receiver": PEER, "window": window}
    with pytest.raises(StaleMessage):
        protocol.open(frames, Kind.REQUEST, **options)
    assert protocol.open(frames, Kind.REQUEST, receiver=PEER, judge_time=False)
    assert protocol.open(frames, Kind.REQUEST, offset_ms=-2 * FRESH_MS, **options)
    with pytest.raises(ReplayedMessage):
        protocol.open(frames, Kind.REQUEST, offset_ms=-2 * FRESH_MS, **options)
