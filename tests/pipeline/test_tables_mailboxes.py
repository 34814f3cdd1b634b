"""Tables straight from the mailboxes of agents: once each, across batches, runs, kills and lost files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pzc import Protocol
from pzc.pipeline.alarm_rules import AlarmRules, Limit
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.recording.recorder import Recorder
from pzc.pipeline.tables import streaming
from pzc.pipeline.tables.batches import Settings
from pzc.pipeline.tables.commit_log import COMMIT_LOG
from pzc.pipeline.tables.feeds import MAILBOXES, JournalFeed, MailboxFeed, mailbox_name
from pzc.pipeline.tables.state import State
from pzc.pipeline.tables.streaming import Following
from pzc.protocol.errors import ConfigError, JournalError

from tests.contract.rigs.peers import KEY
from tests.pipeline.mailbox_rig import Post, refuse_one
from tests.pipeline.source_rig import PATIENCE, Publishers, await_, is_read, waiting

pytestmark = [
    pytest.mark.slow,
    pytest.mark.java,
    pytest.mark.timeout(240),
    pytest.mark.allow_leaks("Spark keeps its JVM, and connections to it, for the whole run"),
]


@pytest.fixture(autouse=True)
def _own_environment(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a query passes on to Spark's processes is for one test."""
    monkeypatch.setenv("PZC_KEY", KEY)
    before = dict(spark.sparkContext.environment)
    yield
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(before)


def ends(*_: object) -> None:
    raise OSError("killed")


def test_what_agents_publish_is_in_the_tables_once_and_acknowledged(
    spark: Any, publishers: Publishers, tmp_path: Path
) -> None:
    hands = [publishers.start() for _ in range(2)]
    post = Post(spark, tmp_path, *hands)
    with post.following():
        await_(lambda: all(map(is_read, hands)))
        for hand in hands:
            hand.ask("publish", "v", 300)
        hands[0].ask("publish", "w", 100)
        post.await_(700)
        await_(lambda: not any(map(waiting, hands)))
    assert post.numbers() == sorted([*range(1, 301)] * 2)
    assert post.rows("statistics", "topic", "count", "missing") == [
        ("v", 300, 0),
        ("v", 300, 0),
        ("w", 100, 0),
    ]
    assert post.rows("gaps", "count") == []


def test_a_row_that_does_not_verify_is_in_quarantine_once_and_missing_once(
    spark: Any, publishers: Publishers, tmp_path: Path
) -> None:
    hand = publishers.start()
    post = Post(spark, tmp_path, hand)
    post.open()
    hand.ask("publish", "v", 1)
    post.once()
    hand.ask("publish", "v", 1)
    (refused,) = post.once(key="another key of a lab")
    assert (refused.quarantined, refused.missing) == (1, 1)
    hand.ask("publish", "v", 3)
    (made,) = post.once(rules=AlarmRules([Limit("high", "value_double >= 1")], ["high"]))
    assert post.numbers() == [1, 3, 4, 5]
    assert post.rows("quarantine", "topic", "sequence", "error") == [("v", 2, "SignatureError")]
    assert post.rows("gaps", "first_missing", "count") == [(2, 1)]
    assert post.rows("alarms", "rule", "value") == [("high", 1.0), ("high", 2.0)]
    assert [alarm["value"] for alarm in made.announce] == [1.0, 2.0]


def test_what_is_told_again_because_checkpoint_and_commit_log_were_lost_is_stored_once(
    spark: Any, publishers: Publishers, tmp_path: Path
) -> None:
    hand = publishers.start()
    post = Post(spark, tmp_path, hand)
    post.open()
    hand.ask("publish", "v", 4)
    hand.ask("publish", "w", 2)
    with post.follow(ends, check=refuse_one) as following:  # in the tables, and Spark is not told
        following.start(once=True)
        with pytest.raises(OSError, match="killed"):
            following.wait(PATIENCE)
    shutil.rmtree(tmp_path / MAILBOXES)
    (tmp_path / COMMIT_LOG).unlink()
    assert [(made.rows, made.skipped) for made in post.once()] == [(0, 6)]
    assert (post.numbers(), post.numbers("w")) == ([1, 3, 4], [1])
    assert post.rows("quarantine", "topic", "sequence") == [("v", 2), ("w", 2)]


def test_a_batch_that_ended_before_its_commit_log_and_then_behind_it_is_done_once(
    spark: Any, publishers: Publishers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = publishers.start()
    post = Post(spark, tmp_path, hand)
    post.open()
    hand.ask("publish", "v", 40)
    for point in ("before", "behind"):
        with monkeypatch.context() as patched, post.follow(ends) as following:
            if point == "before":  # of the first batch of all
                patched.setattr(State, "write", ends)
            following.start(once=True)
            with pytest.raises(OSError, match="killed"):
                following.wait(PATIENCE)
        assert waiting(hand) == 40
    hand.ask("publish", "v", 10)
    assert [made.rows for made in post.once()] == [10]
    assert post.numbers() == list(range(1, 51))
    await_(lambda: waiting(hand) == 0)


def test_what_a_full_mailbox_dropped_is_one_gap(spark: Any, publishers: Publishers, tmp_path: Path) -> None:
    hand = publishers.start()
    post = Post(spark, tmp_path, hand, mailboxMessages=10)
    post.open()
    hand.ask("publish", "v", 5)
    post.once()
    hand.ask("publish", "v", 25)
    post.once()
    assert post.numbers() == [*range(1, 6), *range(21, 31)]
    assert post.rows("gaps", "first_missing", "last_missing") == [(6, 20)]
    assert post.made[-1].missing == 15


def test_planned_rows_that_died_with_their_publisher_are_one_gap_and_the_next_one_is_followed(
    spark: Any, publishers: Publishers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = publishers.start()
    endpoint = hand.ask("endpoint")
    post = Post(spark, tmp_path, hand, timeout=1)
    post.open()
    hand.ask("publish", "v", 5)
    post.once()
    hand.ask("publish", "v", 7)
    with monkeypatch.context() as patched, post.follow() as following:
        patched.setattr(streaming, "stage_rows", ends)
        following.start(once=True)
        with pytest.raises(OSError, match="killed"):
            following.wait(PATIENCE)
    hand.kill()
    another = publishers.start(endpoint)
    another.ask("publish", "v", 3)
    with post.following():
        await_(lambda: is_read(another))
        another.ask("publish", "v", 2)
        post.await_(7)
    assert post.numbers() == sorted([*range(1, 6), 4, 5])
    assert post.rows("gaps", "first_missing", "last_missing", "count") == [(6, 12, 7)]


def test_what_journal_and_mailboxes_have_both_is_stored_once(
    spark: Any, publishers: Publishers, tmp_path: Path
) -> None:
    hand = publishers.start()
    post = Post(spark, tmp_path / "tables", hand)
    post.open()
    with Recorder(tmp_path / "journal", [hand.ask("endpoint")], protocol=Protocol(KEY)) as recorder:
        hand.ask("publish", "v", 6)
        await_(lambda: recorder.statistics()["recorded"] >= 6)
        recorder.drain()
    post.once()
    feed = JournalFeed(tmp_path / "journal")
    with Following(spark, feed, post.tables, Settings(make_decoder(KEY)), post.made.append) as following:
        following.start(once=True)
        assert following.wait(PATIENCE)
    assert post.numbers() == [1, 2, 3, 4, 5, 6]
    assert (post.made[-1].notifications, post.made[-1].duplicates) == (0, 6)


def test_a_publisher_with_another_key_ends_the_run_with_the_reason(
    spark: Any, publishers: Publishers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = Post(spark, tmp_path, publishers.start())
    monkeypatch.setenv("PZC_KEY", "another key of a lab")
    with post.follow() as following:
        following.start(once=True)
        with pytest.raises(JournalError, match="the pipeline has ended: SignatureError: "):
            following.wait(PATIENCE)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"agents": ""}, "agents is missing"),
        ({"agents": "psu:"}, "no agent:topic"),
        ({"options": {"whenFul": "block"}}, "did you mean whenFull"),
        ({"options": {"decode": "true"}}, "decided by the pipeline"),
        ({"options": {"keyFile": "key"}}, "decided by the pipeline"),
        ({"options": {"key": "a key of the lab"}}, "secret"),
    ],
)
def test_what_the_source_does_not_take_is_refused_before_anything_runs(
    given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        MailboxFeed(given.get("agents", "psu"), "tables", options=given.get("options"))


def test_mailboxes_belong_to_a_folder_of_tables_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert mailbox_name("tables") == mailbox_name(tmp_path / "tables") != mailbox_name("others")
