"""What is opened by thousands is what the codec opens one by one, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pzc.pipeline.decoding.bulk import Bulk, Opened
from pzc.protocol.codec import Codec
from pzc.protocol.errors import PzcError
from pzc.protocol.frames import Kind
from pzc.protocol.keyring import Keyring

from tests.protocol.messages import NOW, RING, encode

Row = list[bytes]
FOREIGN = Keyring.from_key("a long secret of another lab")


def row(topic: str = "v", number: int = 1, key: str = "", content: object = "x", ring: Keyring = RING) -> Row:
    return encode(Codec(ring), topic, content, sequence=number, key=key)


def opened(bulk: Bulk, rows: list[Row], learn: bool = True) -> Opened:
    """What is opened of rows; those of unknown lines are judged, and learnt when they are good."""
    codec = Codec(RING)

    def meet(at: int) -> None:
        if learn and (envelope := judged(codec, rows[at])) is not None:
            bulk.learn(rows[at], envelope)

    headers, names, contents, msgids, proofs = map(list, zip(*rows, strict=True))
    return bulk.open(headers, names, contents, msgids, proofs, meet)


def judged(codec: Codec, frames: Row):
    try:
        return codec.open(frames, kind=Kind.NOTIFICATION)
    except PzcError:
        return None


def test_the_first_of_a_line_is_judged_and_all_that_follow_are_opened() -> None:
    bulk = Bulk()
    rows = [row(number=number, key="ch1" * (number % 2)) for number in range(1, 6)]
    found = opened(bulk, rows)
    assert found.rows == [1, 2, 3, 4]
    assert (found.sequences, found.keys) == ([2, 3, 4, 5], ["", "ch1", "", "ch1"])
    assert found.sent_ms == [NOW] * 4
    assert [bulk.lines[line].envelope.topic for line in found.lines] == ["v"] * 4


def test_topics_have_lines_of_their_own() -> None:
    rows = [row("a"), row("b"), row("b", 2), row("a", 2)]
    found = opened(bulk := Bulk(), rows)
    assert found.rows == [2, 3]
    assert [bulk.lines[line].envelope.topic for line in found.lines] == ["b", "a"]


def test_nothing_is_opened_of_a_line_that_was_not_learnt() -> None:
    assert opened(Bulk(), [row(), row(number=2)], learn=False).rows == []


def test_a_key_that_nobody_knows_opens_nothing() -> None:
    assert opened(Bulk(), [row(number=number, ring=FOREIGN) for number in (1, 2)]).rows == []


def test_a_large_content_is_left_to_the_codec() -> None:
    rows = [row(), row(number=2, content=bytes(5000)), row(number=3)]
    assert opened(Bulk(), rows).rows == [2]


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 200), st.integers(0, 7), st.sampled_from("bxil")),
        max_size=12,
    )
)
def test_whatever_is_done_to_rows_what_is_opened_is_what_the_codec_opens(
    faults: list[tuple[int, int, int, str]],
) -> None:
    good = row()
    rows = [row(number=number, content="y" * number) for number in range(2, 5)]
    for number, (frame, at, bit, fault) in enumerate(faults, 5):
        frames = row(number=number)
        held = bytearray(frames[frame])
        if held:
            at %= len(held)
            if fault == "b":
                held[at] ^= 1 << bit
            elif fault == "x":
                del held[at]
            elif fault == "i":
                held.insert(at, bit)
        frames[frame] = bytes(held)
        rows.append(frames)
    codec = Codec(RING)
    found = opened(Bulk(), [good, *rows])
    accepted = {
        at: envelope for at, frames in enumerate(rows, 1) if (envelope := judged(codec, frames)) is not None
    }
    assert {1, 2, 3} <= set(found.rows) <= set(accepted)
    for at, sequence, key in zip(found.rows, found.sequences, found.keys, strict=True):
        assert (sequence, key) == (accepted[at].sequence, accepted[at].key)
