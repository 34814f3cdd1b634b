"""The handshake: sessions that later connections resume, and refusals of a server."""

from __future__ import annotations

import pytest

from pzc.protocol.codec import Codec
from pzc.protocol.errors import (
    FrameError,
    PeerLost,
    PzcError,
    RemoteProtocolError,
    SignatureError,
    VersionError,
)
from pzc.protocol.handshake import MAX_MESSAGE, ServerHandshake, refusal

from tests.protocol.handshakes import (
    CLIENT,
    KEYED,
    SERVER,
    SESSION,
    changed,
    client,
    every_suite,
    server,
    shake,
)

# Sessions


def test_a_first_connection_begins_its_session() -> None:
    assert not any(each.resumed for each in shake(client(), server()))


@every_suite
def test_a_later_connection_resumes_its_session_with_the_key_of_the_first(codec: Codec) -> None:
    first, _ = shake(client(codec), server(codec))
    later = shake(client(codec, resume_key=first.resume_key), server(codec, resume_key=first.resume_key))
    assert [(each.resumed, each.resume_key) for each in later] == [(True, first.resume_key)] * 2


def test_a_session_is_not_taken_over_by_who_has_the_shared_key() -> None:
    first, _ = shake(client(), server())
    with pytest.raises(SignatureError, match="another client"):
        shake(client(resume_key=bytes(32)), server(resume_key=first.resume_key))


def test_a_session_is_not_taken_over_without_any_proof() -> None:
    first, _ = shake(client(), server())
    two = server(resume_key=first.resume_key)

    def carry(each: int, message: bytes) -> bytes:
        return changed(message, resume="") if each == 3 else message

    with pytest.raises(SignatureError, match="another client"):
        shake(client(resume_key=first.resume_key), two, carry)


def test_a_new_session_whose_id_is_taken_is_refused() -> None:
    with pytest.raises(SignatureError, match="begin another"):
        shake(client(), server(resume_key=bytes(32)))


def test_a_session_that_the_server_forgot_begins_anew_with_another_key() -> None:
    first, _ = shake(client(), server())
    one, two = shake(client(resume_key=first.resume_key), server())
    assert (one.resumed, one.resume_key != first.resume_key, two.resume_key) == (False, True, one.resume_key)


def test_a_session_that_began_meanwhile_is_refused() -> None:
    known: list[bytes] = []
    two = ServerHandshake(KEYED, SERVER, 2, "unix", bytes(64), lambda *_: known[0] if known else None)

    def carry(each: int, message: bytes) -> bytes:
        if each == 3:
            known.append(bytes(32))
        return message

    with pytest.raises(PeerLost, match="connect again"):
        shake(client(), two, carry)


def test_a_session_is_looked_up_by_its_client_and_key() -> None:
    asked: list[tuple[str, ...]] = []
    two = ServerHandshake(KEYED, SERVER, 2, "unix", bytes(64), lambda *names: asked.append(names))
    one = client()
    two.hello(one.hello())
    assert KEYED.keyring is not None
    assert asked == [(SESSION, CLIENT, KEYED.keyring.active.key_id)]


# Refusals


@pytest.mark.parametrize("kind", [SignatureError, VersionError, PeerLost, RemoteProtocolError])
@pytest.mark.parametrize("number", [2, 4])
def test_a_refusal_is_raised_at_the_client_as_what_it_is(kind: type[PzcError], number: int) -> None:
    def carry(each: int, message: bytes) -> bytes:
        return refusal(kind("no room")) if each == number else message

    with pytest.raises(kind, match="no room") as caught:
        shake(client(), server(), carry)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "sent", [refusal(FrameError("no room")), changed(refusal(PeerLost("no room")), code="SystemExit")]
)
def test_a_refusal_of_another_name_breaks_the_rules(sent: bytes) -> None:
    one = client()
    with pytest.raises(RemoteProtocolError, match="no room") as caught:
        one.answer(sent)
    assert type(caught.value) is RemoteProtocolError


def test_the_text_of_a_refusal_steers_no_terminal() -> None:
    sent = changed(refusal(PeerLost("x")), text="\x1b[2J")
    with pytest.raises(PeerLost) as caught:
        client().answer(sent)
    assert str(caught.value).isprintable()


def test_a_long_reason_is_cut_before_it_is_sent() -> None:
    assert len(refusal(PeerLost("x" * 10_000))) < MAX_MESSAGE
