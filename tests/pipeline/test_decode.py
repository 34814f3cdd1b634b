from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pzc import Notification
from pzc.pipeline.decoding.decode import Decoder, make_decoder
from pzc.pipeline.schema import DECODED, FRAMES, JOURNAL, blob_path, segments
from pzc.protocol.errors import ConfigError, SerializeError, SignatureError
from pzc.protocol.frames import PZC00
from pzc.protocol.keyring import Key, Keyring
from pzc.protocol.serializers import encode

from tests.pipeline.conftest import a_row

Row = dict[str, Any]


def batch(rows: Sequence[Notification], **columns: list[object]) -> pa.RecordBatch:
    """Journal rows as Spark hands them to a worker."""
    made: dict[str, list[object]] = {name: [None] * len(rows) for name in JOURNAL.names}
    made |= {name: [row.frames[i] for row in rows] for i, name in enumerate(FRAMES)}
    made |= {
        name: [getattr(row, name) for row in rows]
        for name in ("publisher", "name", "topic", "epoch", "sequence")
    }
    made |= {"recorder": ["r"] * len(rows), "offset": list(range(len(rows)))}
    made |= {"received_at": [round(row.received_at * 1e6) for row in rows], **columns}
    return pa.RecordBatch.from_arrays([pa.array(made[f.name], f.type) for f in JOURNAL], schema=JOURNAL)


def decoded(decoder: Decoder, *rows: Notification, **columns: Any) -> list[Row]:
    return decoder.decode(batch(rows, **columns)).to_pylist()


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return make_decoder("a key of the lab")


# --- identity ---------------------------------------------------------------------------------------


def test_a_signed_row_becomes_a_notification(sender, decoder) -> None:
    (found,) = decoded(decoder, sender.row("voltage", 3.3, 5))
    assert found["error"] is None
    assert {name: found[name] for name in ("publisher", "name", "topic", "epoch", "sequence", "dialect")} == {
        "publisher": sender.agent_id,
        "name": "psu",
        "topic": "voltage",
        "epoch": 7,
        "sequence": 5,
        "dialect": "PZC01",
    }


def test_the_signing_key_is_named(sender, decoder) -> None:
    key = sender.codec.keyring.active
    (found,) = decoded(decoder, sender.row("voltage", 3.3))
    assert (found["key_id"], found["user"]) == (key.key_id, key.name)


def test_the_time_of_sending_comes_from_the_message_id(sender, decoder) -> None:
    row = sender.row("voltage", 3.3)
    (found,) = decoded(decoder, row, sent_at=[0])
    assert found["sent_at"].timestamp() * 1000 == sender.now
    assert found["message_id"] == row.frames[3].decode()


def test_the_key_within_a_topic_is_kept(sender, decoder) -> None:
    found = decoded(decoder, sender.row("voltage", 3.3, key="left"), sender.row("voltage", 3.3))
    assert [row["key"] for row in found] == ["left", None]


def test_an_edited_journal_does_not_move_a_value(sender, decoder) -> None:
    row = sender.row("voltage", 3.3, 5)
    (found,) = decoded(decoder, row, topic=["current"], publisher=["x"], sequence=[6], epoch=[8])
    assert (found["topic"], found["publisher"]) == ("voltage", sender.agent_id)
    assert (found["sequence"], found["epoch"]) == (5, 7)


def test_an_unsigned_journal_is_read_without_a_key(make_sender) -> None:
    (found,) = decoded(make_decoder(None), make_sender(secret=None).row("voltage", 3.3))
    assert (found["value_double"], found["key_id"], found["user"]) == (3.3, None, None)


def test_a_sealed_content_is_decrypted(make_sender, decoder) -> None:
    row = make_sender(seal=True).row("voltage", 3.3)
    assert decoded(decoder, row)[0]["value_double"] == 3.3


def test_the_original_dialect_has_neither_sequence_nor_time(make_sender, decoder) -> None:
    sender = make_sender(dialect=PZC00, serializer="pickle")
    (found,) = decoded(decoder, sender.row("voltage", 3.3))
    assert (found["error"], found["sequence"], found["sent_at"], found["value_double"]) == (
        None,
        None,
        None,
        3.3,
    )


@pytest.mark.parametrize("serializer", ["pickle", "pickle2", "json", "msgpack", "arrays"])
def test_every_serializer_is_read(make_sender, decoder, serializer: str) -> None:
    (found,) = decoded(decoder, make_sender().row("reading", {"x": 0.1}, serializer=serializer))
    assert found["value_json"] == '{"x": 0.1}'


# --- quarantine -------------------------------------------------------------------------------------


@given(data=st.data())
def test_no_flipped_bit_passes(make_sender, decoder, data: st.DataObject) -> None:
    row = make_sender().row("voltage", {"x": 3.3}, 5)
    number = data.draw(st.integers(0, 4))
    bit = data.draw(st.integers(0, 8 * len(row.frames[number]) - 1))
    frames = list(row.frames)
    changed = bytearray(frames[number])
    changed[bit // 8] ^= 1 << bit % 8
    frames[number] = bytes(changed)
    (found,) = decoded(decoder, replace(row, frames=frames))
    assert found["error"] is not None


def test_a_bad_row_takes_no_other_with_it(sender, decoder) -> None:
    rows = [sender.row("voltage", float(i), i) for i in range(3)]
    rows[1] = replace(rows[1], frames=(*rows[1].frames[:2], b"\xcb", *rows[1].frames[3:]))
    found = decoded(decoder, *rows)
    assert [row["value_double"] for row in found] == [0.0, None, 2.0]
    assert [row["error"] for row in found] == [None, "SignatureError", None]


def test_a_bad_row_keeps_its_frames_and_what_the_journal_claims(sender, decoder) -> None:
    row = sender.row("voltage", 3.3, 5)
    row = replace(row, frames=(*row.frames[:4], b"\x01forged"))
    (found,) = decoded(decoder, row)
    assert [found[name] for name in FRAMES] == list(row.frames)
    assert (found["topic"], found["sequence"], found["value_double"]) == ("voltage", 5, None)


def test_a_good_row_does_not_carry_its_frames(sender, decoder) -> None:
    (found,) = decoded(decoder, sender.row("voltage", 3.3))
    assert {found[name] for name in (*FRAMES, "reason")} == {None}


@pytest.mark.parametrize(
    ("secret", "key", "reason"),
    [
        ("the key of another lab", "a key of the lab", "keys differ"),
        (None, "a key of the lab", "not signed"),
        ("a key of the lab", None, "has no key"),
    ],
)
def test_a_message_of_another_key_says_so(
    make_sender, secret: str | None, key: str | None, reason: str
) -> None:
    (found,) = decoded(make_decoder(key), make_sender(secret=secret).row("voltage", 3.3))
    assert found["error"] == "SignatureError"
    assert reason in found["reason"]


@pytest.mark.parametrize("missing", FRAMES)
def test_a_missing_frame_is_a_reason_and_no_crash(sender, decoder, missing: str) -> None:
    (found,) = decoded(decoder, sender.row("voltage", 3.3), **{missing: [None]})
    assert found["error"] is not None


@given(st.lists(st.binary(max_size=80), min_size=5, max_size=5))
def test_random_frames_are_a_reason_and_no_crash(decoder, frames: list[bytes]) -> None:
    (found,) = decoded(decoder, a_row(frames=tuple(frames)))
    assert found["error"] is not None


def test_a_request_is_not_taken_for_a_notification(sender, decoder) -> None:
    (found,) = decoded(decoder, replace(sender.row("voltage", 3.3), frames=sender.frames("", 3.3)))
    assert found["error"] == "FrameError"


class Trap:
    """A pickle of this runs code when it is loaded with the full unpickler."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_even_a_signed_pickle_runs_no_code(make_sender, decoder, tmp_path: Path) -> None:
    (found,) = decoded(decoder, make_sender().row("voltage", Trap(tmp_path / "trapped"), serializer="pickle"))
    assert found["error"] == "SerializerRefused"
    assert not (tmp_path / "trapped").exists()


class Reading:
    """Of the lab's own, which no recording may name."""


def test_a_signed_object_is_quarantined_with_what_to_publish_instead(make_sender, decoder) -> None:
    (found,) = decoded(decoder, make_sender(serializer="pickle").row("voltage", Reading()))
    assert "Reading; what is stored is decoded as if nobody had signed it: publish" in found["reason"]
    assert "with a key" not in found["reason"]


def test_a_content_that_contains_itself_is_quarantined(make_sender, decoder) -> None:
    content: list[object] = []
    content.append(content)
    (found,) = decoded(decoder, make_sender().row("t", content, serializer="pickle"))
    assert found["error"] is not None


def test_a_content_nested_too_deeply_is_quarantined(make_sender, decoder) -> None:
    row = make_sender(serializer="json").sealed("t", b"[" * 100_000 + b"]" * 100_000)
    (found,) = decoded(decoder, row)
    assert found["error"] not in (None, "SignatureError")


def test_a_value_that_a_column_cannot_hold_takes_no_other_with_it(make_sender) -> None:
    odd = Key("a long secret of other", name="no text: \udc80")
    decoder = make_decoder(Keyring([Key("a key of the lab"), odd], active=odd))
    senders = make_sender(), make_sender(secret="a long secret of other"), make_sender()
    found = decoded(decoder, *(sender.row("t", float(i)) for i, sender in enumerate(senders)))
    assert [row["value_double"] for row in found] == [0.0, None, 2.0]
    assert [row["error"] for row in found] == [None, "UnicodeEncodeError", None]


# --- blobs ------------------------------------------------------------------------------------------

LARGE = np.arange(1 << 20, dtype=np.uint16).reshape(1024, 1024)


@pytest.fixture
def blobs(make_sender, record: Callable[..., Path]) -> Path:
    return record([make_sender().row("frame", LARGE, serializer="arrays")])


def recorded(directory: Path) -> pa.RecordBatch:
    (found,) = pq.read_table(segments(directory)[0][1]).to_batches()
    return found


def test_a_content_kept_in_a_blob_is_verified_and_decoded(blobs: Path) -> None:
    (found,) = make_decoder("a key of the lab", journal=blobs).decode(recorded(blobs)).to_pylist()
    assert (found["error"], found["mean"], found["shape"]) == (None, LARGE.mean(), [1024, 1024])


def test_the_reference_to_the_blob_is_kept(blobs: Path) -> None:
    (found,) = make_decoder("a key of the lab", journal=blobs).decode(recorded(blobs)).to_pylist()
    assert blob_path(blobs, found["content_ref"]).is_file()


def test_a_damaged_blob_is_quarantined(blobs: Path) -> None:
    path = blob_path(blobs, recorded(blobs).column("content_ref")[0].as_py())
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    (found,) = make_decoder("a key of the lab", journal=blobs).decode(recorded(blobs)).to_pylist()
    assert (found["error"], "damaged" in found["reason"]) == ("DecodeError", True)


def test_a_missing_blob_is_quarantined(blobs: Path) -> None:
    blob_path(blobs, recorded(blobs).column("content_ref")[0].as_py()).unlink()
    (found,) = make_decoder("a key of the lab", journal=blobs).decode(recorded(blobs)).to_pylist()
    assert found["error"] == "FileNotFoundError"


def test_a_blob_without_a_journal_directory_is_quarantined(blobs: Path, decoder) -> None:
    (found,) = decoder.decode(recorded(blobs)).to_pylist()
    assert "no journal directory" in found["reason"]


def test_a_reference_out_of_the_journal_is_quarantined(sender, tmp_path: Path) -> None:
    (found,) = decoded(
        make_decoder("a key of the lab", journal=tmp_path), sender.row("v", 1.0), content_ref=["../secret"]
    )
    assert found["error"] == "JournalError"


def test_one_row_can_be_opened_for_its_whole_content(blobs: Path) -> None:
    (row,) = recorded(blobs).to_pylist()
    envelope, content = make_decoder("a key of the lab", journal=blobs).open(
        [row[f] for f in FRAMES], row["content_ref"]
    )
    assert envelope.topic == "frame"
    assert np.array_equal(content, LARGE)


def test_opening_one_bad_row_raises(sender, make_sender) -> None:
    with pytest.raises(SignatureError):
        make_decoder("the key of another lab").open(sender.frames("v", 1.0))


# --- batches ----------------------------------------------------------------------------------------


def test_a_decoder_survives_its_way_to_a_worker(sender) -> None:
    first = make_decoder("a key of the lab")
    decoded(first, sender.row("v", 1.0))
    again = pickle.loads(pickle.dumps(first))
    assert decoded(again, sender.row("v", 2.0))[0]["value_double"] == 2.0


def test_a_used_decoder_takes_nothing_more_to_a_worker_than_a_new_one(sender) -> None:
    used = make_decoder("a key of the lab")
    decoded(used, sender.row("v", 1.0))
    assert pickle.dumps(used) == pickle.dumps(make_decoder("a key of the lab"))


@pytest.mark.parametrize("serializer", ["pickle", "pickle2", "buffers"])
def test_a_decoder_takes_its_keys_into_no_message(serializer: str) -> None:
    with pytest.raises(SerializeError, match="holds a secret"):
        encode(serializer, {"a": [make_decoder("a key of the lab")]})
    assert encode(serializer, make_decoder(None))


def test_as_many_rows_come_out_as_went_in(sender, decoder) -> None:
    made = list(decoder(batch(sender.rows("v", range(n))) for n in (3, 0, 2)))
    assert [len(found) for found in made] == [3, 0, 2]
    assert all(found.schema.equals(DECODED) for found in made)


def test_rows_with_blobs_are_decoded_a_few_at_a_time(sender, decoder) -> None:
    rows = sender.rows("v", range(150))
    made = list(decoder([batch(rows, content_ref=[None, "ab" * 32] * 75)]))
    assert [len(found) for found in made] == [64, 64, 22]
    assert pa.Table.from_batches(made)["offset"].to_pylist() == list(range(150))


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ConfigError):
        make_decoder("")
