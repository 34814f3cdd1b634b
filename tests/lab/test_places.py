"""Whether a lab is up, asked by several at once."""

from __future__ import annotations

from io import FileIO
from pathlib import Path
from threading import Event, Thread

import pytest

from pzc.lab.places import Places
from pzc.pipeline.storage import lock_file

pytestmark = pytest.mark.needs("posix")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Places(tmp_path / "lab.toml")
    made.make()
    return made


def test_a_lab_that_somebody_else_looks_at_is_free_all_the_same(places: Places) -> None:
    looking = lock_file(places.lock, "busy", shared=True)
    assert places.free()
    looking.close()


def test_a_supervisor_waits_for_whoever_looks(places: Places) -> None:
    looking, begun = lock_file(places.lock, "busy", shared=True), Event()
    taken: list[FileIO | None] = []

    def take() -> None:
        begun.set()
        taken.append(places.take())

    thread = Thread(target=take)
    thread.start()
    begun.wait()
    looking.close()
    thread.join()
    assert taken[0] is not None
    taken[0].close()


def test_a_lab_with_a_supervisor_is_not_free(places: Places) -> None:
    held = places.take()
    assert held is not None
    assert not places.free()
    assert places.take() is None
    held.close()


def test_a_lab_of_another_environment_is_found_and_not_started_twice(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as service:
        service.delenv("XDG_RUNTIME_DIR")
        of_a_service = Places(places.file)
        of_a_service.make()
        held = of_a_service.take()
    assert held is not None
    assert places.take() is None
    assert not places.free()
    assert places.endpoint == of_a_service.endpoint
    of_a_service.lock.unlink()
    held.close()


def test_a_folder_that_others_can_write_tells_of_no_lab(places: Places) -> None:
    held = places.take()
    assert held is not None
    places.lock.parent.chmod(0o777)
    assert places.free()
    held.close()
