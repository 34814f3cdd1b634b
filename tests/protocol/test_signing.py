"""What the signature proves: no bit, byte, frame, receiver or purpose of a message can change."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol.codec import Codec
from pzc.protocol.errors import FrameError, ProtocolError, SignatureError
from pzc.protocol.frames import Kind
from pzc.protocol.ids import MessageIds, Stamp
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.signing import LARGE, SUITES, Sealer, Suite, covered, parties, sealer, sign_00, split

NOW = 1_700_000_000_000
KEY = Key("a long secret of lab-secret")
RING = Keyring([KEY])
AGENT, PEER = "a" * 32, "b" * 32
IDS = MessageIds(7)
PIZCO_ID = "urn:uuid:9f717295-2ba7-4cab-9586-9de68210bb03"


class Case(NamedTuple):
    """A good message, and how its receiver opens it."""

    codec: Codec
    frames: list[bytes]
    kind: Kind
    receiver: str

    def open(self, frames: list[bytes], **options: Any) -> object:
        envelope = self.codec.open(frames, **{"kind": self.kind, "receiver": self.receiver, **options})
        return envelope.decode()


def message(codec: Codec, kind: Kind, content: object = ("get", "x")) -> Case:
    receiver = "" if kind is Kind.NOTIFICATION else PEER
    topic, sequence = ("volt+age", 12) if kind is Kind.NOTIFICATION else ("", 0)
    msgid = IDS.next_urn(NOW) if kind is Kind.REPLY else None
    frames = codec.encode(
        AGENT, topic, content, msgid=msgid, stamp=IDS.next(NOW), sequence=sequence, receiver=receiver
    )
    return Case(codec, [bytes(frame) for frame in frames], kind, receiver)


def pizco(content: object = ("get", "x"), serializer: str = "pickle2") -> Case:
    codec = Codec(RING, serializer=serializer, dialect="PZC00")
    frames = codec.encode("tcp://127.0.0.1:5", "topic", content, msgid=PIZCO_ID, stamp=IDS.next(NOW))
    return Case(codec, [bytes(frame) for frame in frames], Kind.NOTIFICATION, "")


SIGNED = {
    f"{suite}-{kind.name.lower()}": message(Codec(RING, seal=suite == "aes256-gcm"), kind)
    for suite, kind in itertools.product(SUITES, Kind)
}
ALL = {**SIGNED, "pzc00-pickle2": pizco(), "pzc00-json": pizco(serializer="json")}
signed = pytest.mark.parametrize("case", SIGNED.values(), ids=SIGNED)
every = pytest.mark.parametrize("case", ALL.values(), ids=ALL)


def accepted(case: Case, tampered: Iterator[list[bytes]]) -> list[list[bytes]]:
    """The variants that got through; any exception but a typed one is an error of its own."""
    found = []
    tried = 0
    for frames in tampered:
        tried += 1
        try:
            case.open(frames)
        except ProtocolError:
            continue
        found.append(frames)
    assert tried
    return found


@every
def test_the_untouched_message_is_accepted(case: Case) -> None:
    assert case.open(case.frames) in (("get", "x"), ["get", "x"])


def flipped(frames: list[bytes]) -> Iterator[list[bytes]]:
    for index, frame in enumerate(frames):
        for bit in range(8 * len(frame)):
            changed = bytearray(frame)
            changed[bit // 8] ^= 1 << bit % 8
            yield [*frames[:index], bytes(changed), *frames[index + 1 :]]


@every
def test_a_flipped_bit_is_rejected(case: Case) -> None:
    assert not accepted(case, flipped(case.frames))


def moved(frames: list[bytes]) -> Iterator[list[bytes]]:
    for left in range(4):
        one, two = frames[left : left + 2]
        for count in range(1, len(one) + 1):
            yield [*frames[:left], one[:-count], one[-count:] + two, *frames[left + 2 :]]
        for count in range(1, len(two) + 1):
            yield [*frames[:left], one + two[:count], two[count:], *frames[left + 2 :]]


@every
def test_bytes_moved_across_a_frame_boundary_are_rejected(case: Case) -> None:
    assert not accepted(case, moved(case.frames))


@signed
def test_a_receiver_that_knows_the_sender_already_rejects_what_was_changed(case: Case) -> None:
    case.open(case.frames)
    frames, tag = case.frames, case.frames[4]
    longer = ([*frames[:4], tag[:cut] + b"x" + tag[cut:]] for cut in range(len(tag) + 1))
    shorter = ([*frames[:4], tag[:cut] + tag[cut + 1 :]] for cut in range(len(tag)))
    assert not accepted(case, itertools.chain(flipped(frames), moved(frames), longer, shorter))
    assert case.open(case.frames) == ("get", "x")


@given(st.data())
@pytest.mark.parametrize("name", ALL)
def test_the_same_bytes_cut_into_five_other_frames_are_rejected(name: str, data: st.DataObject) -> None:
    case = ALL[name]
    joined = b"".join(case.frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(joined)), min_size=4, max_size=4)))
    frames = [joined[start:end] for start, end in itertools.pairwise([0, *cuts, len(joined)])]
    assert frames == case.frames or not accepted(case, iter([frames]))


@given(st.data())
@pytest.mark.parametrize("name", ALL)
def test_bytes_inserted_removed_or_replaced_are_rejected(name: str, data: st.DataObject) -> None:
    case = ALL[name]
    index = data.draw(st.integers(0, 4))
    frame = case.frames[index]
    start = data.draw(st.integers(0, len(frame)))
    end = data.draw(st.integers(start, len(frame)))
    changed = frame[:start] + data.draw(st.binary(max_size=8)) + frame[end:]
    frames = [*case.frames[:index], changed, *case.frames[index + 1 :]]
    assert changed == frame or not accepted(case, iter([frames]))


def rearranged(frames: list[bytes]) -> Iterator[list[bytes]]:
    for index in range(5):
        yield [*frames[:index], *frames[index + 1 :]]
        yield [*frames[: index + 1], *frames[index:]]
        yield [*frames[:index], b"", *frames[index + 1 :]]
        yield [*frames[:index], frames[index] * 2, *frames[index + 1 :]]
        yield [*frames[:index], frames[index] + bytes(3000), *frames[index + 1 :]]
    for index in range(6):
        yield [*frames[:index], b"", *frames[index:]]
    for order in itertools.permutations(range(5)):
        if order != (0, 1, 2, 3, 4):
            yield [frames[index] for index in order]
    yield []
    yield [b""] * 5
    yield frames * 2


@every
def test_frames_dropped_repeated_swapped_emptied_or_added_are_rejected(case: Case) -> None:
    assert not accepted(case, rearranged(case.frames))


@signed
def test_frames_of_two_good_messages_do_not_mix(case: Case) -> None:
    other = message(case.codec, case.kind, "other content")
    mixtures = (
        [
            pair[choice]
            for pair, choice in zip(zip(case.frames, other.frames, strict=True), choices, strict=True)
        ]
        for choices in itertools.product((0, 1), repeat=5)
    )
    assert not accepted(case, (frames for frames in mixtures if frames not in (case.frames, other.frames)))


@signed
def test_a_message_for_one_agent_is_refused_by_another(case: Case) -> None:
    with pytest.raises(SignatureError):
        case.open(case.frames, receiver="c" * 32)


@signed
def test_a_message_is_refused_as_any_other_kind(case: Case) -> None:
    for kind in set(Kind) - {case.kind}:
        with pytest.raises(FrameError, match=f"expected a {kind.name.lower()}"):
            case.open(case.frames, kind=kind)


@signed
def test_a_header_rewritten_to_another_kind_is_refused(case: Case) -> None:
    headers = {
        Kind.REQUEST: f"PZC01+{AGENT}++0+",
        Kind.NOTIFICATION: f"PZC01+{AGENT}+topic+12+",
        Kind.REPLY: f"PZC01+{AGENT}++{IDS.next(NOW).hex()}+",
    }
    for kind in set(Kind) - {case.kind}:
        with pytest.raises(SignatureError):
            case.open([headers[kind].encode(), *case.frames[1:]], kind=kind)


@every
def test_another_key_is_refused(case: Case) -> None:
    stranger = case._replace(codec=Codec(Keyring.from_key("a long secret of other")))
    with pytest.raises(SignatureError, match="keys differ"):
        stranger.open(case.frames)


@signed
def test_the_id_of_another_accepted_key_does_not_fit(case: Case) -> None:
    other = Key("a long secret of other")
    both = case._replace(codec=Codec(Keyring([KEY, other], KEY)))
    forged = case.frames[4].removesuffix(KEY.key_id.encode()) + other.key_id.encode()
    with pytest.raises(SignatureError, match="does not match"):
        both.open([*case.frames[:4], forged])


@signed
def test_the_tag_does_not_fit_under_the_code_of_another_suite(case: Case) -> None:
    for suite in range(256):
        if suite != case.frames[4][0]:
            with pytest.raises(SignatureError):
                case.open([*case.frames[:4], bytes([suite]) + case.frames[4][1:]])


@signed
def test_a_message_stripped_of_its_signature_is_refused(case: Case) -> None:
    with pytest.raises(SignatureError, match="requires a signature"):
        case.open([*case.frames[:4], b"\0" + case.receiver.encode()])


@pytest.mark.parametrize(
    "frame", [b"", b"\4", b"\xff" + bytes(40), b"\1" + bytes(31), b"\2" + bytes(15), b"\3"]
)
def test_a_signature_frame_without_suite_or_whole_tag_is_refused(frame: bytes) -> None:
    with pytest.raises(SignatureError):
        split(frame)


def test_a_key_id_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(SignatureError, match="ASCII"):
        split(b"\3" + bytes(16) + b"\xff")


def test_a_signature_frame_is_split_by_its_suite() -> None:
    assert split(memoryview(b"\0" + PEER.encode())) == (Suite.NONE, PEER.encode(), "")
    assert split(b"\1" + b"t" * 32 + b"0a1b2c3d") == (Suite.HMAC_SHA256, b"t" * 32, "0a1b2c3d")
    assert split(b"\3" + b"t" * 16 + b"0a1b2c3d") == (Suite.AES256_GCM, b"t" * 16, "0a1b2c3d")


pieces = st.tuples(
    st.sampled_from(Kind),
    st.sampled_from(list(Suite)),
    st.text("ab", max_size=3),
    st.text("abé", max_size=3),
    st.tuples(*[st.binary(max_size=3).map(lambda raw: raw.replace(b"\0", b"a"))] * 3),
    st.integers(0, 3),
)


def all_covered(
    kind: Kind, suite: Suite, key_id: str, receiver: str, frames: tuple[bytes, bytes, bytes], length: int
) -> bytes:
    return covered(parties(kind, suite, key_id, receiver), *frames, length)


@given(pieces, pieces)
def test_two_messages_are_covered_by_the_same_bytes_only_if_they_are_equal(one: Any, other: Any) -> None:
    assert (all_covered(*one) == all_covered(*other)) == (one == other)


def test_the_covered_bytes_are_laid_out_as_documented() -> None:
    lengths = b"PZC01" + struct.pack(">BBHHIIIQ", 2, 1, 8, 3, 6, 4, 2, 99)
    found = all_covered(Kind.REPLY, Suite.HMAC_SHA256, "0a1b2c3d", "é1", (b"header", b"json", b"id"), 99)
    assert found == lengths + "0a1b2c3dé1headerjsonid".encode()


STAMP = Stamp(NOW, 3, 7)
FRAMES = (b"header", b"json", b"id")
sizes = pytest.mark.parametrize("size", [0, 1, LARGE, LARGE + 1, 3 * LARGE])
every_suite = pytest.mark.parametrize("suite", [Suite.HMAC_SHA256, Suite.AES256_GCM])


def new_sealer(suite: Suite, key: Key = KEY, sender: str = AGENT, epoch: int = 7) -> Sealer:
    return sealer(key, suite, Kind.REQUEST, sender, PEER, epoch)


def before(suite: Suite, length: int) -> bytes:
    return all_covered(Kind.REQUEST, suite, KEY.key_id, PEER, FRAMES, length)


@sizes
def test_hmac_is_over_covered_bytes_and_content(size: int) -> None:
    content = bytes(size)
    tag, sent = new_sealer(Suite.HMAC_SHA256).seal(STAMP, *FRAMES, content)
    expected = hmac.digest(KEY.hmac_key, before(Suite.HMAC_SHA256, size) + content, hashlib.sha256)
    assert (tag, sent) == (expected, content)


@sizes
def test_gcm_encrypts_the_content(size: int) -> None:
    content = bytes(size)
    tag, sent = new_sealer(Suite.AES256_GCM).seal(STAMP, *FRAMES, content)
    aead = KEY.aead(AGENT, 7)
    assert bytes(sent) + tag == aead.encrypt(STAMP.nonce(), content, before(Suite.AES256_GCM, size))


@given(st.binary(max_size=200), st.sampled_from([bytes, bytearray, memoryview]))
@every_suite
def test_what_was_sealed_opens_whatever_buffer_holds_it(suite: Suite, content: bytes, buffer: Any) -> None:
    tag, sent = new_sealer(suite).seal(STAMP, *FRAMES, buffer(content))
    assert new_sealer(suite).open(STAMP, *FRAMES, buffer(bytes(sent)), tag) == content


@sizes
@every_suite
@pytest.mark.parametrize(
    "change",
    [
        {"key": Key("a long secret of other")},
        {"sender": PEER},
        {"epoch": 8},
        {"stamp": STAMP._replace(counter=4)},
        {"frames": (b"heades", b"json", b"id")},
    ],
    ids=["key", "sender", "epoch", "counter", "header"],
)
def test_a_tag_holds_for_one_key_sender_stamp_and_header(
    suite: Suite, change: dict[str, Any], size: int
) -> None:
    if suite is Suite.HMAC_SHA256 and change.keys() & {"sender", "epoch", "stamp"}:
        change = {"frames": (b"header", b"json", b"ie")}  # HMAC knows all three from the frames only
    tag, sent = new_sealer(suite).seal(STAMP, *FRAMES, bytes(size))
    stamp, (header, name, msgid) = change.get("stamp", STAMP), change.get("frames", FRAMES)
    other = {what: value for what, value in change.items() if what not in ("stamp", "frames")}
    with pytest.raises(SignatureError):
        new_sealer(suite, **other).open(stamp, header, name, msgid, sent, tag)


def test_pzc00_is_signed_as_by_the_original() -> None:
    expected = hmac.new(KEY.secret, b"abcd", hashlib.sha1).digest()
    assert sign_00(KEY, (b"a", b"b", b"c", b"d")) == expected
