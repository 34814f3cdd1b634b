from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from pzc import Key, Keyring, Protocol, Role, Server
from pzc.agents.serving.execution import PROOFS
from pzc.agents.wire import now_ms
from pzc.protocol.frames import PZC01, Kind
from pzc.protocol.ids import Stamp
from pzc.protocol.signing import Suite, sealer

from tests.agents.regular import (
    ME,
    OTHER,
    Bench,
    Client,
    bench,
    client,
    make_quick,
    refused,
    served,
    server,
    table,
)
from tests.contract.rigs.calling import Frames, RawPeer, counts

FIXTURES = (bench, client, served, server)


def test_a_short_cut_executes_what_has_proved_quick_and_nothing_before(
    client: Client, bench: Bench, served: list[bool]
) -> None:
    for _ in range(PROOFS):
        assert client.ask()[1] == "return"
    assert served == [False] * (PROOFS - 1)
    assert bench.calls == PROOFS
    make_quick(client, served)


def test_the_results_of_a_short_cut_are_the_ones_of_the_general_way(
    client: Client, served: list[bool]
) -> None:
    for value in (None, 3, "text", (1, "a"), {"a": [1, 2]}, b"bytes", 1.5):
        ask = ("PSMessage", "exec", {"name": "echo", "method": "__call__", "args": (value,)})
        assert [tuple(client.ask(ask)) for _ in range(5)] == [("PSMessage", "return", value)] * 5
    assert any(served)


@pytest.mark.parametrize("quick", [True, False], ids=["served", "not served"])
def test_a_request_that_a_short_cut_has_taken_is_refused_when_it_comes_again(
    client: Client, bench: Bench, served: list[bool], quick: bool
) -> None:
    if quick:
        make_quick(client, served)
    else:
        client.ask()
    frames = client.frames()
    assert client.send(frames)[1] == "return"
    assert served[-1] is quick
    before = bench.calls
    assert refused(client.send(frames)) == "ReplayedMessage"
    assert bench.calls == before


def test_a_request_of_the_general_way_is_refused_by_a_short_cut(client: Client, bench: Bench) -> None:
    first = client.frames()
    assert client.send(first)[1] == "return"
    assert len(table(client.server)) == 1
    assert refused(client.send(first)) == "ReplayedMessage"
    assert bench.calls == 1


def test_a_request_of_a_short_cut_is_refused_by_the_general_way(
    client: Client, bench: Bench, served: list[bool]
) -> None:
    make_quick(client, served)
    frames = client.frames()
    client.send(frames)
    assert served[-1]
    client.server.loop.run(table(client.server)._known.clear)
    before = bench.calls
    assert refused(client.send(frames)) == "ReplayedMessage"
    assert bench.calls == before


def test_a_request_that_comes_over_another_connection_again_is_refused(
    client: Client, bench: Bench, served: list[bool]
) -> None:
    make_quick(client, served)
    frames = client.frames()
    client.send(frames)
    before = bench.calls
    with RawPeer(client.server.rep_endpoint) as thief:
        assert refused(client.read(thief.ask(frames))) == "ReplayedMessage"
    assert bench.calls == before


@pytest.mark.parametrize("late_ms", [31_000, -32_000])
def test_a_stale_request_is_refused_and_leaves_no_trace(
    client: Client, bench: Bench, late_ms: int, served: list[bool]
) -> None:
    make_quick(client, served)
    before = bench.calls
    frames = client.frames(late_ms=late_ms)
    for _ in range(2):
        assert refused(client.send(frames)) == "StaleMessage"
    assert bench.calls == before


def test_freshness_is_judged_by_the_measured_clock(client: Client, bench: Bench, served: list[bool]) -> None:
    make_quick(client, served)
    ahead_ms, nonces = 600_000, client.server._answering.responder.nonces
    keyring = client.protocol.codec.keyring
    key_id = keyring.active.key_id if keyring else ""
    client.server.loop.run(lambda: nonces.take(nonces.give(key_id), key_id, ME, now_ms() + ahead_ms))
    assert client.send(client.frames(late_ms=-ahead_ms))[1] == "return"
    assert served[-1]
    before = bench.calls
    assert refused(client.ask()) == "StaleMessage"
    assert bench.calls == before


@pytest.mark.parametrize("which", range(5))
def test_an_altered_request_is_refused_and_the_true_one_still_runs(
    client: Client, bench: Bench, which: int, served: list[bool]
) -> None:
    make_quick(client, served)
    before, frames = bench.calls, client.frames()
    for at in {0, len(frames[which]) // 2, len(frames[which]) - 1}:
        for flip in (1, 0x20, 0x80):
            altered = bytearray(frames[which])
            altered[at] ^= flip
            client.peer.ask([*frames[:which], bytes(altered), *frames[which + 1 :]])
    assert bench.calls == before
    assert client.send(frames)[1] == "return"
    assert bench.calls == before + 1


def test_a_request_for_another_receiver_is_refused(client: Client, bench: Bench, served: list[bool]) -> None:
    make_quick(client, served)
    before = bench.calls
    assert refused(client.send(client.frames(receiver=OTHER))) == "SignatureError"
    assert bench.calls == before


def test_a_request_that_is_signed_with_another_key_is_refused(
    client: Client, bench: Bench, served: list[bool]
) -> None:
    make_quick(client, served)
    before, stranger = bench.calls, Client(client.server, key="another key")
    stranger.peer.ask(stranger.frames())
    stranger.close()
    assert bench.calls == before
    assert counts(client.server)["refused_SignatureError"] == 1


def test_a_request_under_the_header_of_another_client_is_refused(
    client: Client, bench: Bench, served: list[bool]
) -> None:
    other = Client(client.server, OTHER)
    make_quick(client, served)
    make_quick(other, served)
    before, mine, theirs = bench.calls, client.frames(), other.frames()
    client.peer.ask([theirs[0], *mine[1:]])
    assert bench.calls == before
    assert counts(client.server)["refused_SignatureError"] == 1
    assert other.send(theirs)[1] == client.send(mine)[1] == "return"
    other.close()


def test_a_client_of_the_same_id_with_a_new_epoch_is_known_anew(
    client: Client, bench: Bench, served: list[bool]
) -> None:
    make_quick(client, served)
    restarted = Client(client.server)
    assert restarted.protocol.epoch != client.protocol.epoch
    make_quick(restarted, served)
    frames = restarted.frames()
    assert restarted.send(frames)[1] == "return"
    assert refused(restarted.send(frames)) == "ReplayedMessage"
    assert client.ask()[1] == "return"
    assert len(table(client.server)) == 1
    restarted.close()


def test_the_table_is_bounded_and_forgets_who_was_not_heard_for_longest(
    client: Client, timings: Callable[..., None]
) -> None:
    timings(short_cuts=4)
    others = [Client(client.server, os.urandom(16).hex()) for _ in range(6)]
    for other in others:
        assert other.ask()[1] == client.ask()[1] == "return"
        other.close()
    known = client.server.loop.run(lambda: list(table(client.server)._known))
    assert [bytes(header).split(b"+")[1].decode() for header in known] == [
        *[other.agent_id for other in others[-3:]],
        ME,
    ]


def test_a_forged_request_makes_no_entry(client: Client) -> None:
    frames = client.frames()
    client.peer.ask([*frames[:4], frames[4][:1] + bytes(16) + frames[4][17:]])
    assert len(table(client.server)) == 0


def test_a_handshake_makes_no_entry(client: Client) -> None:
    content = {"pzc": "hello", "challenge": "0" * 16}
    made = client.protocol.encode(ME, "", content, dialect=PZC01, suite="aes256-gmac")
    client.peer.ask([bytes(frame) for frame in made])
    assert len(table(client.server)) == 0


def test_an_observer_gets_no_short_cut(bench: Bench) -> None:
    keys = [
        Key("a secret of admins", "admin", Role.ADMIN),
        Key("one of observers", "observer", Role.OBSERVER),
    ]
    with Server(bench, protocol=Protocol(keyring=Keyring(keys, keys[0]))) as server:
        client = Client(server)
        client.protocol = Protocol(keyring=Keyring(keys, keys[1]))
        for _ in range(5):
            assert refused(client.ask()) == "RoleRefused"
        client.close()
        assert len(table(server)) == 0
    assert bench.calls == 0


def test_what_a_short_cut_cannot_decode_is_refused_once_and_answered(
    client: Client, served: list[bool]
) -> None:
    make_quick(client, served)
    frames = client.frames()
    frames[2] = b"\x80\x05junk"
    stamp = client.protocol.new_stamp()
    sealed = client.protocol.codec.encode(
        ME, "", None, stamp=stamp, sequence=1, receiver=client.server.agent_id, suite="aes256-gmac"
    )
    signed = _signed_again(client, [bytes(frame) for frame in sealed], frames[2], stamp)
    assert refused(client.send(signed)) == "DecodeError"
    assert refused(client.send(signed)) == "ReplayedMessage"
    assert client.ask()[1] == "return"


def _signed_again(client: Client, frames: Frames, body: bytes, stamp: Stamp) -> Frames:
    """The frames with another content, signed as if that were a pickle."""
    keyring = client.protocol.codec.keyring
    assert keyring is not None
    seal = sealer(
        keyring.active, Suite.AES256_GMAC, Kind.REQUEST, ME, client.server.agent_id, stamp.epoch
    ).seal
    tag, _ = seal(stamp, frames[0], frames[1], frames[3], body)
    return [frames[0], frames[1], body, frames[3], frames[4][:1] + tag + frames[4][17:]]
