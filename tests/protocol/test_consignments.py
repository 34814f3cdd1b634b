"""The frames of a consignment are those of the codec, and nothing else is opened."""

from __future__ import annotations

import pytest

from pzc.protocol.bundle import Bundle, Item, encode
from pzc.protocol.codec import Codec
from pzc.protocol.consignments import Consignment
from pzc.protocol.frames import Buffer, Kind
from pzc.protocol.ids import Stamp
from pzc.protocol.keyring import Keyring
from pzc.protocol.signing import LARGE

SENDER, RECEIVER = "ab" * 16, "cd" * 16 + "/" + "ef" * 16
MS, COUNTER, EPOCH = 1_700_000_000_123, (5 << 30) + 77, 0xDEADBEEF
MSGID = Stamp(MS, 3, 9).urn()
KEYRING = Keyring.from_key("a long secret of k")
BUNDLE = Bundle(1, [Item("t", 1, "", MS, 0, "pickle", b"body")])


def consignment(**changed: object) -> Consignment:
    told = {"sender": SENDER, "key": KEYRING.active, "epoch": EPOCH, "receiver": RECEIVER}
    return Consignment(**{**told, "msgid": MSGID.encode(), "count": lambda: COUNTER, **changed})  # pyright: ignore[reportArgumentType]


def sealed() -> list[Buffer]:
    frames = consignment().seal(encode(BUNDLE), MS)
    assert frames is not None
    return frames


def by_codec(suite: str = "aes256-gmac") -> list[Buffer]:
    stamp = Stamp(MS, COUNTER, EPOCH)
    return Codec(KEYRING).encode(
        SENDER, "", BUNDLE, msgid=MSGID, stamp=stamp, receiver=RECEIVER, serializer="bundle", suite=suite
    )


def test_the_frames_are_those_of_the_codec() -> None:
    assert sealed() == by_codec()


def test_the_codec_opens_what_was_sealed() -> None:
    codec = Codec(KEYRING)
    assert codec.content(codec.open(sealed(), kind=Kind.REPLY, receiver=RECEIVER)) == BUNDLE


def test_what_the_codec_made_is_opened() -> None:
    assert consignment().open(by_codec()) == encode(BUNDLE)


@pytest.mark.parametrize("frame", range(5))
def test_no_bit_may_change(frame: int) -> None:
    for at in range(len(sealed()[frame])):
        frames = sealed()
        changed = bytearray(frames[frame])
        changed[at] ^= 1
        frames[frame] = bytes(changed)
        assert consignment().open(frames) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"sender": "ac" * 16},
        {"epoch": EPOCH + 1},
        {"receiver": "cd" * 16},
        {"msgid": Stamp(MS, 4, 9).urn().encode()},
        {"key": Keyring.from_key("a long secret of other").active},
    ],
)
def test_only_the_bundles_of_the_connection_are_opened(changed: dict[str, object]) -> None:
    assert consignment(**changed).open(sealed()) is None


def test_another_suite_is_left_to_the_codec() -> None:
    assert consignment().open(by_codec("hmac-sha256")) is None


def test_a_large_bundle_is_left_to_the_codec() -> None:
    assert consignment().seal(bytes(LARGE + 1), MS) is None
