"""The graph of connected topics that a registry keeps, and its file."""

from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pzc import ConfigError, CycleRefused
from pzc.agents.naming.connections import Connections

from tests.contract.rigs.peers import TIMEOUT


def test_every_change_has_a_new_number_and_is_told() -> None:
    topics = Connections()
    told: list[int] = []
    topics.changed.connect(lambda count, *_: told.append(count))
    first = topics.snapshot()[0]
    topics.connect("/a", "/b")
    topics.connect("/a", "/b")
    assert topics.connections() == [("/a", "/b")]
    topics.disconnect("/a", "/b")
    assert topics.snapshot()[0] == first + 2
    assert told == [1, 0]


def test_what_a_registry_told_is_taken_over_and_told() -> None:
    kept, told = Connections(), list[bool]()
    kept.listen(lambda: told.append(True))
    kept.replace(7, [("/a", "/b")])
    assert (kept.snapshot(), kept.upstream("/b"), told) == ((7, [("/a", "/b")]), {"/a"}, [True])


def test_what_no_registry_can_tell_is_refused_and_changes_nothing() -> None:
    kept = Connections()
    with pytest.raises(CycleRefused):
        kept.replace(7, [("/a", "/b"), ("/b", "/a")])
    assert kept.snapshot() == (0, [])


def test_connections_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "registry.json"
    Connections(path).connect("/a", "/b")
    again = Connections(path)
    assert again.connections() == [("/a", "/b")]
    assert again.snapshot()[0] == 1


def test_a_reader_of_the_file_never_sees_half_of_it(tmp_path: Path) -> None:
    path, over = tmp_path / "registry.json", threading.Event()
    topics = Connections(path)
    topics.connect("/a", "/b")

    def read() -> int:
        seen = 0
        while not over.is_set():
            assert json.loads(path.read_text())["connections"][0] == ["/a", "/b"]
            seen += 1
        return seen

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for number in range(50):
            topics.connect("/b", f"/c{number}")
        over.set()
        assert reading.result(TIMEOUT) > 0
    assert [each.name for each in tmp_path.iterdir()] == ["registry.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[]",
        b'{"format": 1, "revision": -1, "connections": []}',
        b'{"format": 1, "revision": 1, "connections": [["/a"]]}',
        b'{"format": 1, "revision": 1, "connections": [["/a", "/b"], ["/b", "/a"]]}',
        b'{"format": 2, "revision": 1, "connections": []}',
    ],
)
def test_a_file_that_cannot_be_understood_is_set_aside_whole(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "registry.json"
    path.write_bytes(content)
    with caplog.at_level(logging.ERROR, "pzc.registry"):
        topics = Connections(path)
    assert topics.connections() == []
    aside = tmp_path / "registry.json.unreadable-1"
    assert aside.read_bytes() == content
    assert str(aside) in caplog.text
    topics.connect("/a", "/b")
    assert Connections(path).connections() == [("/a", "/b")]


def test_a_second_file_set_aside_does_not_replace_the_first(tmp_path: Path) -> None:
    path = tmp_path / "registry.json"
    for content in ("one", "two"):
        path.write_text(content)
        Connections(path)
    assert {each.read_text() for each in tmp_path.glob("*.unreadable-*")} == {"one", "two"}


def test_a_path_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        Connections(tmp_path / "missing" / "registry.json")


def test_a_change_that_cannot_be_written_does_not_happen(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    topics = Connections(folder / "registry.json")
    topics.connect("/a", "/b")
    before = topics.snapshot()
    (folder / "registry.json").unlink()
    folder.rmdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        topics.connect("/b", "/c")
    with pytest.raises(ConfigError, match="cannot be written"):
        topics.disconnect("/a", "/b")
    assert topics.snapshot() == before
    folder.mkdir()
    topics.connect("/c", "/a")
    assert topics.connections() == [("/a", "/b"), ("/c", "/a")]
