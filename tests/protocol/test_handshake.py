"""The handshake: both ends agree on new keys, or one of them refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.codec import Codec
from pzc.protocol.errors import (
    LocalProtocolError,
    PeerLost,
    PzcError,
    RemoteProtocolError,
    SignatureError,
    VersionError,
)
from pzc.protocol.handshake import MAX_MESSAGE, Agreement, ServerHandshake
from pzc.protocol.keyring import Key, Keyring, Role
from pzc.protocol.session import ARRAYS, REFERENCES
from pzc.protocol.signing import Suite

from tests.protocol.handshakes import (
    CLIENT,
    KEYED,
    KEYLESS,
    OTHER,
    SEALING,
    SERVER,
    SESSION,
    STRANGE,
    changed,
    client,
    every_suite,
    messages,
    server,
    shake,
)

OPERATOR, OBSERVER = Key("the secret of operators", "ops", Role.OPERATOR), Key("the secret to look", "eyes")
SMALL_ORDER = "00" * 32


def secrets_of(agreement: Agreement) -> set[bytes]:
    return {agreement.send_key, agreement.receive_key, agreement.resume_key, agreement.binding_id}


# An agreement


@every_suite
def test_each_end_sends_with_the_key_that_the_other_receives_with(codec: Codec) -> None:
    one, two = shake(client(codec), server(codec))
    assert (one.send_key, one.receive_key) == (two.receive_key, two.send_key)


def test_both_ends_know_the_binding_and_the_resume_key() -> None:
    one, two = shake(client(), server())
    assert (one.binding_id, one.resume_key) == (two.binding_id, two.resume_key)


def test_each_end_learns_who_the_other_is() -> None:
    one, two = shake(client(), server())
    assert (one.peer_id, one.peer_epoch, two.peer_id, two.peer_epoch) == (SERVER, 2, CLIENT, 1)


def test_the_server_learns_the_session() -> None:
    _, two = shake(client(), server())
    assert two.session == SESSION


def test_each_end_learns_what_the_other_can_read() -> None:
    one, two = shake(client(), server())
    assert one.peer_abilities == two.peer_abilities == ARRAYS | REFERENCES


@pytest.mark.parametrize(
    ("one", "two", "suite"),
    [
        (KEYLESS, KEYLESS, Suite.NONE), (KEYED, KEYED, Suite.HMAC_SHA256), (SEALING, SEALING, Suite.AES256_GCM),
        (SEALING, KEYED, Suite.AES256_GCM), (KEYED, SEALING, Suite.AES256_GCM),
    ],
    ids=["no key", "no seal", "both seal", "client seals", "server seals"],
)  # fmt: skip
def test_a_connection_is_encrypted_when_either_end_insists(one: Codec, two: Codec, suite: Suite) -> None:
    assert {each.suite for each in shake(client(one), server(two))} == {int(suite)}


@every_suite
def test_no_two_handshakes_and_purposes_have_a_key_in_common(codec: Codec) -> None:
    settled = [shake(client(codec), server(codec))[0] for _ in range(3)]
    assert len(set.union(*map(secrets_of, settled))) == 3 * 4


def test_the_server_gives_the_role_that_its_own_ring_has() -> None:
    theirs = Codec(Keyring([Key(OPERATOR.secret, "mine", Role.ADMIN)]))
    _, two = shake(client(theirs), server(Codec(Keyring([OPERATOR, OBSERVER], OBSERVER))))
    assert two.key is OPERATOR


def test_the_client_trusts_the_server_by_the_role_that_its_own_ring_has() -> None:
    ring = Keyring([OPERATOR, OBSERVER], OBSERVER, calling=OPERATOR)
    one, _ = shake(client(Codec(ring)), server(Codec(Keyring([Key(OPERATOR.secret)]))))
    assert one.key is OPERATOR


def test_whoever_asks_with_the_active_key_of_a_server_with_several_may_do_nothing() -> None:
    ring = Keyring([OPERATOR, OBSERVER], OPERATOR)
    _, two = shake(client(Codec(Keyring([Key(OPERATOR.secret)]))), server(Codec(ring)))
    assert two.key is ring.others_own


def test_an_agreement_shows_no_key() -> None:
    settled, _ = shake(client(), server())
    assert not any(repr(secret) in repr(settled) for secret in secrets_of(settled) - {settled.binding_id})


def test_without_keys_there_is_nothing_to_sign_with() -> None:
    settled, _ = shake(client(KEYLESS), server(KEYLESS))
    assert secrets_of(settled) == {b""}


def test_over_rep_a_client_need_not_know_whom_it_reaches() -> None:
    one, _ = shake(client(target="", carrier="rep"), server(carrier="rep"))
    assert one.peer_id == SERVER


# What was changed on its way


@every_suite
@given(data=st.data())
def test_a_changed_byte_of_any_message_ends_in_a_refusal(codec: Codec, data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 4))
    two = server(codec)

    def carry(each: int, message: bytes) -> bytes:
        if each != number:
            return message
        at = data.draw(st.integers(0, len(message) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda value: value != message[at]))
        return message[:at] + bytes((byte,)) + message[at + 1 :]

    with pytest.raises(PzcError):
        shake(client(codec), two, carry)
    assert number == 4 or two.agreement is None


values = (
    st.none() | st.booleans() | st.integers(-3, 2**33) | st.text(max_size=5) | st.lists(st.text(max_size=3))
)


@every_suite
@given(data=st.data())
def test_a_changed_field_of_any_message_ends_in_a_refusal(codec: Codec, data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 4))

    def carry(each: int, message: bytes) -> bytes:
        if each != number:
            return message
        table = json.loads(message)
        name = data.draw(st.sampled_from(sorted(table)))
        hexes = st.text("0123456789abcdef", min_size=len(str(table[name])), max_size=len(str(table[name])))
        other = values | hexes if isinstance(table[name], str) else values
        value = data.draw(other.filter(lambda new: (type(new), new) != (type(table[name]), table[name])))
        return changed(message, **{name: value})

    with pytest.raises(PzcError):
        shake(client(codec), server(codec), carry)


@given(data=st.data())
def test_bytes_that_are_no_message_are_refused(data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=300))
    with pytest.raises(RemoteProtocolError):
        server().hello(content)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "written",
    [
        lambda message: message + b" ",
        lambda message: message.replace(b":", b": ", 1),
        lambda message: json.dumps(dict(reversed(json.loads(message).items())), separators=(",", ":")).encode(),
        lambda message: message[:-1] + message[message.rindex(b',"') :],
        lambda message: changed(message, more=1),
        lambda message: changed(message, more="x" * MAX_MESSAGE),
        lambda message: message.replace(b'"pzc"', b'"\\u0070zc"'),
    ],
    ids=["space behind", "space inside", "order", "field twice", "field more", "huge", "escape"],
)  # fmt: skip
def test_another_writing_of_the_same_message_is_refused(number: int, written: Any) -> None:
    def carry(each: int, message: bytes) -> bytes:
        return written(message) if each == number else message

    with pytest.raises(RemoteProtocolError):
        shake(client(), server(), carry)


@pytest.mark.parametrize("content", [b"[" * MAX_MESSAGE, b'{"version":' + b"9" * 4000 + b"}", b"null", b""])
def test_hostile_json_is_refused(content: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        server().hello(content)


@pytest.mark.parametrize("number", [1, 2])
def test_a_point_that_makes_the_secret_known_is_refused(number: int) -> None:
    def carry(each: int, message: bytes) -> bytes:
        return changed(message, exchange=SMALL_ORDER) if each == number else message

    with pytest.raises(SignatureError, match="public key"):
        shake(client(SEALING), server(SEALING), carry)


# What was said elsewhere


@pytest.mark.parametrize(("said", "expected"), [(a, b) for a in range(4) for b in range(4) if a != b])
def test_a_message_in_the_place_of_another_is_refused(said: int, expected: int) -> None:
    others = messages(client(), server())

    def carry(each: int, message: bytes) -> bytes:
        return others[said] if each == expected + 1 else message

    with pytest.raises(RemoteProtocolError):
        shake(client(), server(), carry)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_message_of_an_earlier_handshake_is_refused(number: int) -> None:
    others = messages(client(), server())

    def carry(each: int, message: bytes) -> bytes:
        return others[number - 1] if each == number else message

    with pytest.raises(SignatureError):
        shake(client(), server(), carry)


def test_the_proof_of_the_client_is_not_that_of_the_server() -> None:
    proofs: list[str] = []

    def carry(each: int, message: bytes) -> bytes:
        if each == 3:
            proofs.append(json.loads(message)["proof"])
        return changed(message, proof=proofs[0]) if each == 4 else message

    with pytest.raises(SignatureError):
        shake(client(), server(), carry)


def test_a_message_of_another_carrier_is_refused() -> None:
    with pytest.raises(SignatureError):
        shake(client(carrier="tcp"), server(carrier="unix"))


def test_a_client_that_failed_has_no_second_try() -> None:
    one, two = client(), server()
    third = one.answer(two.hello(one.hello()))
    assert third is not None
    with pytest.raises(SignatureError):
        two.finish(changed(third, proof="0" * 64))
    with pytest.raises(RemoteProtocolError, match="over"):
        two.finish(third)


def test_a_server_answers_one_hello() -> None:
    one, two = client(), server()
    two.hello(one.hello())
    with pytest.raises(RemoteProtocolError, match="over"):
        two.hello(one.hello())


def test_nothing_is_finished_before_the_hello() -> None:
    with pytest.raises(RemoteProtocolError, match="over"):
        server().finish(messages(client(), server())[2])


def test_a_client_with_a_key_completes_nothing_without_message_4() -> None:
    one, two = client(), server()
    one.answer(two.hello(one.hello()))
    with pytest.raises(RemoteProtocolError, match="over"):
        one.complete()


# Keys, targets, versions


def test_a_key_that_the_server_does_not_know_is_refused() -> None:
    with pytest.raises(SignatureError, match="PZC_KEY"):
        shake(client(STRANGE), server())


def test_a_key_with_the_id_of_another_proves_nothing() -> None:
    other = Key("a secret that pretends")
    other.key_id = KEYED.keyring.active.key_id if KEYED.keyring else ""
    with pytest.raises(SignatureError, match="does not match"):
        shake(client(Codec(Keyring([other]))), server())


@pytest.mark.parametrize(("one", "two"), [(KEYED, KEYLESS), (KEYLESS, KEYED)], ids=["client", "server"])
def test_a_key_on_one_side_alone_is_refused(one: Codec, two: Codec) -> None:
    with pytest.raises(SignatureError, match="PZC_KEY"):
        shake(client(one), server(two))


@pytest.mark.parametrize(
    ("one", "suite"), [(KEYED, "none"), (KEYLESS, "hmac-sha256"), (SEALING, "hmac-sha256")]
)
def test_a_client_accepts_no_suite_that_it_did_not_offer(one: Codec, suite: str) -> None:
    def carry(each: int, message: bytes) -> bytes:
        return changed(message, suite=suite) if each == 2 else message

    with pytest.raises(SignatureError, match="PZC_KEY"):
        shake(client(one), server(one), carry)


@pytest.mark.parametrize("suites", [[], ["none"], ["aes256-gcm-siv"], ["hmac-sha256"]])
def test_a_server_that_encrypts_refuses_who_offers_less(suites: list[str]) -> None:
    with pytest.raises(SignatureError, match="PZC_SEAL"):
        server(SEALING).hello(changed(client().hello(), suites=suites))


@pytest.mark.parametrize("target", [OTHER, ""])
def test_who_wants_another_agent_is_refused(target: str) -> None:
    with pytest.raises(PeerLost, match=SERVER):
        shake(client(target=target), server())


def test_an_answer_of_another_agent_is_refused() -> None:
    def carry(each: int, message: bytes) -> bytes:
        return changed(message, agent_id=OTHER) if each == 2 else message

    with pytest.raises(PeerLost, match=OTHER):
        shake(client(), server(), carry)


@pytest.mark.parametrize("number", [1, 2])
def test_another_version_is_named_whatever_else_it_says(number: int) -> None:
    def carry(each: int, message: bytes) -> bytes:
        return changed(message, version=3, more=[{}]) if each == number else message

    with pytest.raises(VersionError, match="version 3"):
        shake(client(), server(), carry)


@pytest.mark.parametrize("size", [0, 63, 65])
def test_too_few_random_bytes_are_refused_at_once(size: int) -> None:
    with pytest.raises(LocalProtocolError, match="64"):
        ServerHandshake(KEYED, SERVER, 2, "unix", bytes(size))
