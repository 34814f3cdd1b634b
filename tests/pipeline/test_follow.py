"""Tables of what agents publish: once each, across batches, runs, kills and lost files."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from pzc import Agent, Protocol
from pzc.pipeline.alarm_rules import AlarmRules, Limit
from pzc.pipeline.decoding.decode import make_decoder
from pzc.pipeline.recording.backlog import Backlog
from pzc.pipeline.recording.recorder import Recorder
from pzc.pipeline.tables.batches import Settings
from pzc.pipeline.tables.commit_log import FOLDER as LOG
from pzc.pipeline.tables.follow import mailbox_name
from pzc.pipeline.tables.run import Pace, run
from pzc.pipeline.tables.work import Inline
from pzc.protocol.errors import PzcError, SignatureError

from tests.contract.rigs.mailing import ReaderProcess
from tests.contract.rigs.peers import KEY
from tests.pipeline.following import Dying, Killed
from tests.pipeline.mailbox_rig import NAME, Picky, Post
from tests.pipeline.publishers import Publishers, await_, is_read, waiting

pytestmark = [pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_KEY", KEY)


def test_what_agents_publish_is_in_the_tables_once_and_acknowledged(
    publishers: Publishers, tmp_path: Path
) -> None:
    hands = [publishers.start() for _ in range(2)]
    post = Post(tmp_path, *hands)
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
    publishers: Publishers, tmp_path: Path
) -> None:
    hand = publishers.start()
    post = Post(tmp_path, hand)
    post.open()
    hand.ask("publish", "v", 1)
    post.once()
    hand.ask("publish", "v", 1)
    (refused,) = post.once(key="another key of a lab")
    assert (refused.quarantined, refused.missing) == (1, 0)
    hand.ask("publish", "v", 3)
    (made,) = post.once(rules=AlarmRules([Limit("high", "value_double >= 1")], {"high"}))
    assert post.numbers() == [1, 3, 4, 5]
    assert post.rows("quarantine", "topic", "sequence", "error") == [("v", 2, "SignatureError")]
    assert post.rows("gaps", "first_missing", "count") == [(2, 1)]
    assert post.rows("alarms", "rule", "value") == [("high", 1.0), ("high", 2.0)]
    assert [alarm["value"] for alarm in made.announce] == [1.0, 2.0]


def test_a_journal_that_is_lost_loses_nothing_that_comes_later(
    publishers: Publishers, tmp_path: Path
) -> None:
    hand = publishers.start()
    post = Post(tmp_path, hand)
    post.open()
    hand.ask("publish", "v", 4)
    post.once()
    shutil.rmtree(post.journal)
    hand.ask("publish", "v", 4)
    assert [made.notifications for made in post.once()] == [4]
    assert post.numbers() == list(range(1, 9))


def test_what_a_lost_commit_log_had_is_stored_once(publishers: Publishers, tmp_path: Path) -> None:
    hand = publishers.start()
    post = Post(tmp_path, hand)
    post.open()
    hand.ask("publish", "v", 4)
    hand.ask("publish", "w", 2)
    post.once(decoder=Picky)
    shutil.rmtree(tmp_path / LOG)
    assert post.once(decoder=Picky) == []
    assert (post.numbers(), post.numbers("w")) == ([1, 3, 4], [1])
    assert post.rows("quarantine", "topic", "sequence") == [("v", 2), ("w", 2)]


def test_a_batch_that_ended_before_its_commit_and_then_behind_it_is_done_once(
    publishers: Publishers, tmp_path: Path
) -> None:
    def ends(*_: object) -> None:
        raise Killed

    hand = publishers.start()
    post = Post(tmp_path, hand)
    post.open()
    hand.ask("publish", "v", 40)
    with pytest.raises(Killed):
        post.once(storage=Dying(3))
    assert waiting(hand) == 0  # it is in the journal
    with pytest.raises(Killed):
        post.once(on_batch=ends)
    hand.ask("publish", "v", 10)
    assert [made.rows for made in post.once()] == [10]
    assert post.numbers() == list(range(1, 51))


def test_what_a_full_mailbox_dropped_is_one_gap(publishers: Publishers, tmp_path: Path) -> None:
    hand = publishers.start()
    post = Post(tmp_path, hand, messages=10)
    post.open()
    hand.ask("publish", "v", 5)
    post.once()
    hand.ask("publish", "v", 25)
    post.once()
    assert post.numbers() == [*range(1, 6), *range(21, 31)]
    assert post.rows("gaps", "first_missing", "last_missing") == [(6, 20)]
    assert post.made[-1].missing == 15


def test_a_publisher_that_is_started_again_is_followed(publishers: Publishers, tmp_path: Path) -> None:
    hand = publishers.start()
    endpoint = hand.ask("endpoint")
    post = Post(tmp_path, hand)
    with post.following():
        await_(lambda: is_read(hand))
        hand.ask("publish", "v", 5)
        post.await_(5)
        hand.kill()
        another = publishers.start(endpoint)
        await_(lambda: is_read(another))
        another.ask("publish", "v", 2)
        post.await_(7)
    assert sorted(post.numbers()) == sorted([*range(1, 6), 1, 2])
    assert post.rows("gaps", "count") == []


def test_what_journal_and_mailboxes_have_both_is_stored_once(publishers: Publishers, tmp_path: Path) -> None:
    hand = publishers.start()
    post = Post(tmp_path / "tables", hand)
    post.open()
    with Recorder(tmp_path / "journal", [hand.ask("endpoint")], protocol=Protocol(KEY)) as recorder:
        hand.ask("publish", "v", 6)
        await_(lambda: recorder.statistics()["recorded"] >= 6)
        recorder.drain()
    post.once()
    settings = Settings(make_decoder(KEY))
    run(tmp_path / "journal", post.tables, settings, Inline(), post.made.append, Pace(once=True))
    assert post.numbers() == [1, 2, 3, 4, 5, 6]
    assert (post.made[-1].notifications, post.made[-1].duplicates) == (0, 6)


def test_a_publisher_with_another_key_ends_the_run_with_the_reason(
    publishers: Publishers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post = Post(tmp_path, publishers.start())
    monkeypatch.setenv("PZC_KEY", "another key of a lab")
    with pytest.raises(SignatureError):
        post.once()


def test_another_process_that_reads_the_mailboxes_ends_the_run(
    publishers: Publishers, tmp_path: Path
) -> None:
    hand = publishers.start()
    post = Post(tmp_path, hand)
    ended: list[BaseException] = []

    def follow() -> None:
        try:
            post.follow(every=0.05)
        except PzcError as exc:
            ended.append(exc)

    thread = threading.Thread(target=follow)
    thread.start()
    await_(lambda: is_read(hand))
    with ReaderProcess(hand.ask("endpoint"), NAME, "v"):
        thread.join(60)
    assert "one process at a time" in str(ended[0])


def test_mailboxes_belong_to_a_folder_of_tables_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert mailbox_name("tables") == mailbox_name(tmp_path / "tables") != mailbox_name("others")


class Odd(Agent):
    def statistics(self) -> dict[str, Any]:
        return {"mailboxes": [{"reader": 3}, None]}


def test_a_publisher_that_tells_something_else_of_its_mailboxes_tells_nothing() -> None:
    with Odd(protocol=Protocol(KEY)) as odd, Agent(protocol=Protocol(KEY)) as asking:
        backlog = Backlog(asking, NAME, [odd.rep_endpoint])
        backlog.ask(5.0)
        assert backlog.left == {}
