"""The binding of a connection: what is sealed at one end opens at the other, once and in order."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.binding import PIECE, Binding
from pzc.protocol.errors import PeerLost, SignatureError
from pzc.protocol.signing import Suite

ONE, OTHER = b"1" * 32, b"2" * 32
FRONT = b"head, header, serializer and message id"
SUITES = list(Suite)


def pair(suite: int) -> tuple[Binding, Binding]:
    return Binding(suite, ONE, OTHER), Binding(suite, OTHER, ONE)


def sealed(binding: Binding, content: bytes) -> tuple[bytes, bytes]:
    parts, signature = binding.seal(FRONT, (content,))
    return b"".join(parts), signature


def test_a_tag_is_hmac_over_counter_front_and_content() -> None:
    one, _ = pair(Suite.HMAC_SHA256)
    sealed(one, b"the first")
    covered = (1).to_bytes(8, "big") + FRONT + b"content"
    assert sealed(one, b"content") == (b"content", b"\x01" + hmac.digest(ONE, covered, hashlib.sha256))


def test_a_sealed_content_is_that_of_gcm_with_the_counter_as_nonce() -> None:
    one, _ = pair(Suite.AES256_GCM)
    whole = AESGCM(ONE).encrypt(bytes(12), b"content", FRONT)
    assert sealed(one, b"content") == (whole[:-16], b"\x03" + whole[-16:])


@pytest.mark.parametrize("suite", SUITES)
@given(contents=st.lists(st.binary(max_size=100), min_size=1, max_size=5))
def test_what_one_end_seals_opens_at_the_other(suite: Suite, contents: list[bytes]) -> None:
    one, other = pair(suite)
    for content in contents:
        assert other.open(FRONT, *sealed(one, content)) == content


@pytest.mark.parametrize("suite", SUITES)
def test_a_large_content_goes_in_pieces(suite: Suite) -> None:
    one, other = pair(suite)
    *pieces, signature = one.seal_pieces(FRONT, (bytes(PIECE), b"rest"))
    take, judge = other.opening(FRONT)
    content = memoryview(bytearray(b"".join(pieces)))
    take(content)
    judge(content, bytes(signature))
    assert content == bytes(PIECE) + b"rest"


@pytest.mark.parametrize("suite", [Suite.HMAC_SHA256, Suite.AES256_GCM])
@given(at=st.integers(0, 6 + 33), bit=st.integers(0, 7), of_front=st.booleans())
def test_any_changed_bit_is_refused(suite: Suite, at: int, bit: int, of_front: bool) -> None:
    one, other = pair(suite)
    content, signature = sealed(one, b"content")
    changed = bytearray(FRONT if of_front else content + signature)
    changed[at % len(changed)] ^= 1 << bit
    front, whole = (bytes(changed), content + signature) if of_front else (FRONT, bytes(changed))
    with pytest.raises(SignatureError):
        other.open(front, whole[:7], whole[7:])


@pytest.mark.parametrize("suite", [Suite.HMAC_SHA256, Suite.AES256_GCM])
def test_a_message_opens_once_in_its_place_and_not_where_it_was_sealed(suite: Suite) -> None:
    one, other = pair(suite)
    first, second = sealed(one, b"content"), sealed(one, b"content")
    for binding, message in ((other, second), (one, first)):
        with pytest.raises(SignatureError):
            binding.open(FRONT, *message)
    other.open(FRONT, *first)
    with pytest.raises(SignatureError):
        other.open(FRONT, *first)


def test_after_two_to_the_32_messages_a_new_connection_is_needed() -> None:
    one, other = pair(Suite.HMAC_SHA256)
    one.sent = other.received = 1 << 32
    with pytest.raises(PeerLost, match="new connection"):
        sealed(one, b"")
    with pytest.raises(PeerLost, match="new connection"):
        other.open(FRONT, b"", b"")
