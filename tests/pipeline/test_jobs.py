"""Spark jobs over journals of real signed frames, verified in real Python workers."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pzc.pipeline import schema
from pzc.pipeline.decoding.decode import CHECK_FAILED, make_decoder
from pzc.pipeline.spark import jobs
from pzc.protocol.errors import JournalError

from tests.pipeline.conftest import damage_content, facts

pytestmark = [
    pytest.mark.java,
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]

Record = Callable[..., Path]


# --- the session ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.sql.adaptive.enabled", "false"),
        ("spark.sql.catalogImplementation", "in-memory"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.ui.enabled", "false"),
    ],
)
def test_a_local_session_has_the_settings_for_one_machine(spark, name: str, value: str) -> None:
    assert spark.conf.get(name) == value


def test_workers_run_this_interpreter(spark) -> None:
    assert spark.sparkContext.parallelize([0]).map(lambda _: sys.executable).first() == sys.executable


# --- reading ----------------------------------------------------------------------------------------


def test_a_journal_is_read_with_its_schema(spark, record: Record, sender) -> None:
    row = sender.row("voltage", 3.3, 5)
    (found,) = jobs.read_journal(spark, record([row])).collect()
    assert [bytes(found[name]) for name in schema.FRAMES] == row.frames
    assert found.received_at.timestamp() == pytest.approx(row.received_at, abs=1e-6)


def test_segments_of_all_recorders_are_read(spark, record: Record, sender) -> None:
    record(sender.rows("v", range(3)), recorder="one")
    assert jobs.read_journal(spark, record(sender.rows("v", range(2)), recorder="two")).count() == 5


def test_blobs_and_unfinished_files_are_not_taken_for_segments(spark, record: Record, make_sender) -> None:
    directory = record([make_sender(serializer="buffers").row("frame", np.zeros(1 << 20, np.uint16))])
    (directory / ".segment-recorder-0000000000000001.parquet.tmp").write_bytes(b"PAR1")
    assert jobs.read_journal(spark, directory).count() == 1


def test_a_journal_without_segments_has_no_rows(spark, tmp_path: Path) -> None:
    found = jobs.read_journal(spark, tmp_path)
    assert (found.count(), found.columns) == (0, schema.JOURNAL.names)


def test_a_missing_journal_is_an_error(spark, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="absent"):
        jobs.read_journal(spark, tmp_path / "absent")


def test_a_directory_may_have_any_name(spark, record: Record, sender, tmp_path: Path) -> None:
    odd = tmp_path / "run [1] {a,b}* ?"
    record([sender.row("v", 1.0)]).rename(odd)
    assert jobs.read_journal(spark, odd).count() == 1


# --- verification -----------------------------------------------------------------------------------


def test_good_rows_become_notifications(decoded, sender) -> None:
    found = jobs.notifications(decoded(sender.rows("v", [0.5, 1.5])))
    assert found.columns == schema.NOTIFICATIONS.names
    assert facts(found, "name", "sequence", "value_double") == [("psu", 0, 0.5), ("psu", 1, 1.5)]


def damage_signature(frames: list[bytes]) -> None:
    frames[4] = frames[4][:1] + bytes([frames[4][1] ^ 1]) + frames[4][2:]


def move_a_byte(frames: list[bytes]) -> None:
    frames[1], frames[2] = frames[1][:-1], frames[1][-1:] + frames[2]


@pytest.mark.parametrize("damage", [damage_signature, damage_content, move_a_byte])
def test_a_damaged_row_goes_to_quarantine_and_the_query_goes_on(
    decoded, sender, damage: Callable[..., None]
) -> None:
    rows = sender.rows("v", [0.5, 1.5, 2.5])
    damage(rows[1].frames)
    found = decoded(rows)
    assert facts(jobs.notifications(found), "value_double") == [0.5, 2.5]
    assert facts(jobs.quarantine(found), "offset", "error") == [(1, "SignatureError")]


def test_a_row_in_quarantine_keeps_its_frames(decoded, make_sender) -> None:
    row = make_sender(secret="a secret of another lab").row("v", 1.0)
    (found,) = jobs.quarantine(decoded([row])).collect()
    assert [bytes(found[name]) for name in schema.FRAMES] == row.frames


IMAGE = np.arange(1 << 20, dtype=np.uint16).reshape(1024, 1024)


def check_image(topic: str, content: Any) -> str | None:
    wrong = int(np.count_nonzero(content["image"] != IMAGE))
    return f"{wrong} pixels of frame {content['index']} are wrong" if wrong else None


def test_one_wrong_pixel_is_found_by_the_check(decoded, make_sender) -> None:
    sender, bent = make_sender("camera", serializer="buffers"), IMAGE.copy()
    bent[700, 3] += 1
    found = decoded(
        sender.rows("frame", [{"index": 0, "image": IMAGE}, {"index": 1, "image": bent}]), check=check_image
    )
    assert facts(jobs.quarantine(found), "error", "reason") == [
        (CHECK_FAILED, "1 pixels of frame 1 are wrong")
    ]
    (good,) = jobs.notifications(found).collect()
    assert json.loads(good.value_json) == {"index": 0, "image": {"ndarray": ["uint16", [1024, 1024]]}}
    assert (good.shape, good["mean"], good["std"]) == ([1024, 1024], IMAGE.mean(), IMAGE.std())
    assert good.digest == hashlib.sha256(IMAGE.tobytes()).hexdigest()


def test_a_bit_flipped_in_a_blob_goes_to_quarantine(spark, record: Record, make_sender) -> None:
    journal = record(make_sender(serializer="buffers").rows("frame", [IMAGE, IMAGE[::-1]]))
    damaged = next(path for path in (journal / "blobs").rglob("*") if path.is_file())
    content = bytearray(damaged.read_bytes())
    content[1_000_000] ^= 4
    damaged.write_bytes(content)
    found = jobs.verify_and_decode(
        jobs.read_journal(spark, journal), make_decoder("a key of the lab", journal=journal)
    )
    assert (jobs.notifications(found).count(), facts(jobs.quarantine(found), "content_ref")) == (
        1,
        [damaged.name],
    )


def test_not_a_number_survives_the_way_through_spark(decoded, sender) -> None:
    found = jobs.notifications(decoded(sender.rows("v", [float("nan"), None]))).orderBy("sequence").collect()
    assert [str(row.value_double) for row in found] == ["nan", "None"]


# --- duplicates -------------------------------------------------------------------------------------


def test_a_notification_recorded_twice_counts_once(notifications, sender) -> None:
    rows = sender.rows("v", range(5))
    assert facts(notifications([*rows, *rows[1:4]]), "sequence") == [0, 1, 2, 3, 4]


def test_of_two_copies_the_one_received_first_is_kept(notifications, sender) -> None:
    row = sender.row("v", 1.0)
    late = row._replace(received_at=row.received_at + 5)
    assert facts(notifications([late, row, late]), "offset") == [1]


def test_the_same_notification_from_two_recorders_counts_once(spark, record: Record, sender) -> None:
    rows = sender.rows("v", range(3))
    record(rows, recorder="one")
    journal = jobs.read_journal(spark, record(rows, recorder="two"))
    found = jobs.notifications(jobs.verify_and_decode(journal, make_decoder("a key of the lab")))
    assert (found.count(), jobs.deduplicate(found).count()) == (6, 3)


def test_equal_numbers_of_two_epochs_topics_or_agents_are_no_duplicates(notifications, make_sender) -> None:
    rows = [
        make_sender("psu", epoch=1).row("v", 1.0),
        make_sender("psu", epoch=2).row("v", 1.0),
        make_sender("psu", epoch=1).row("i", 1.0),
        make_sender("load", epoch=1).row("v", 1.0),
    ]
    assert notifications(rows).count() == 4


def test_the_original_dialect_is_deduplicated_by_message_id(notifications, make_sender) -> None:
    rows = make_sender(dialect="PZC00", serializer="pickle").rows("v", [1.0, 1.0, 1.0])
    assert notifications([*rows, rows[0]]).count() == 3


# --- gaps -------------------------------------------------------------------------------------------

GAP = ("epoch", "topic", "first_missing", "last_missing", "count")


def without(rows: list[Any], *missing: int) -> list[Any]:
    return [row for row in rows if row.sequence not in missing]


def test_missing_numbers_are_reported_as_ranges(notifications, sender) -> None:
    rows = without(sender.rows("v", range(20)), 3, 4, 5, 11)
    assert facts(jobs.gaps(notifications(rows)), *GAP) == [(7, "v", 11, 11, 1), (7, "v", 3, 5, 3)]


def test_rows_out_of_order_are_no_gap(notifications, sender) -> None:
    assert facts(jobs.gaps(notifications(sender.rows("v", range(9))[::-1])), *GAP) == []


def test_a_duplicate_does_not_hide_a_gap(notifications, sender) -> None:
    rows = sender.rows("v", range(5))
    assert facts(jobs.gaps(notifications([rows[0], rows[0], rows[0], rows[4]])), *GAP) == [(7, "v", 1, 3, 3)]


def test_a_restart_is_no_gap_and_each_epoch_has_its_own(notifications, make_sender) -> None:
    before = without(make_sender(epoch=1).rows("v", range(10), first=100), 105)
    after = without(make_sender(epoch=2).rows("v", range(10)), 6, 7)
    found = jobs.gaps(notifications([*before, *after]))
    assert facts(found, *GAP) == [(1, "v", 105, 105, 1), (2, "v", 6, 7, 2)]


def test_a_late_start_is_a_gap_only_when_the_first_number_is_known(notifications, sender) -> None:
    rows = notifications(sender.rows("v", range(3), first=5))
    assert facts(jobs.gaps(rows), *GAP) == []
    assert facts(jobs.gaps(rows, first_sequence=0), *GAP) == [(7, "v", 0, 4, 5)]


def test_a_message_in_quarantine_is_missing(notifications, sender) -> None:
    rows = sender.rows("v", range(5))
    damage_content(rows[2].frames)
    assert facts(jobs.gaps(notifications(rows)), *GAP) == [(7, "v", 2, 2, 1)]


# --- statistics -------------------------------------------------------------------------------------


def statistics(rows: Any) -> dict[str, dict[str, Any]]:
    return {row.topic: row.asDict() for row in jobs.topic_statistics(rows).collect()}


def test_values_are_counted_as_numpy_does(notifications, sender) -> None:
    values = [0.5, 2.25, -1.0, 7.0]
    found = statistics(notifications(sender.rows("v", values)))["v"]
    measured = [found[name] for name in ("count", "values", "min", "max", "mean", "std")]
    assert measured == [4, 4, -1.0, 7.0, np.mean(values), pytest.approx(np.std(values))]


def test_values_that_are_not_numbers_are_not_averaged(notifications, sender) -> None:
    found = statistics(notifications(sender.rows("v", [1.0, float("nan"), None, "off", 3.0])))["v"]
    assert (found["count"], found["values"], found["mean"]) == (5, 2, 2.0)


def test_whole_numbers_are_values(notifications, sender) -> None:
    assert statistics(notifications(sender.rows("n", [1, 2, 6])))["n"]["mean"] == 3.0


def test_the_rate_is_that_of_sending(notifications, sender) -> None:
    found = statistics(notifications(sender.rows("v", range(11))))["v"]
    assert found["rate_hz"] == pytest.approx(100.0)
    assert (found["last_sent"] - found["first_sent"]).total_seconds() == pytest.approx(0.1)


def test_one_notification_has_no_rate(notifications, sender) -> None:
    assert statistics(notifications(sender.rows("v", [1.0])))["v"]["rate_hz"] is None


def test_ages_are_milliseconds_from_sent_to_received(notifications, sender) -> None:
    rows = [sender.row("v", 1.0, i, age=age) for i, age in enumerate((0.001, 0.002, 0.009))]
    found = statistics(notifications(rows))["v"]
    assert [found[f"age_{name}_ms"] for name in ("min", "mean", "max")] == pytest.approx([1.0, 4.0, 9.0])
    assert found["age_p99_ms"] == pytest.approx(np.percentile([1, 2, 9], 99))


def test_missing_notifications_are_summed_over_epochs(notifications, make_sender) -> None:
    rows = [r for e in (1, 2) for r in without(make_sender(epoch=e).rows("v", range(9)), 3, 4)]
    found = statistics(notifications(rows))["v"]
    assert (found["missing"], found["epochs"], found["count"]) == (4, 2, 14)


def test_duplicates_and_gaps_do_not_cancel(notifications, sender) -> None:
    rows = sender.rows("v", range(6))
    found = statistics(notifications([*rows[:3], *rows[:3], rows[5]]))["v"]
    assert (found["count"], found["missing"]) == (4, 2)
