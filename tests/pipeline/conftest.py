"""Signed notifications as an agent makes them, journals that hold them, and one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from pzc import Notification
from pzc.pipeline.recording.journal import Journal
from pzc.pipeline.schema import segments
from pzc.protocol import signing
from pzc.protocol.codec import Codec
from pzc.protocol.frames import PZC01, Kind, format_header
from pzc.protocol.ids import MessageIds
from pzc.protocol.keyring import Keyring
from pzc.protocol.signing import Suite
from pzc.testing import FakeClock

from tests.contract.rigs.processes import Forge
from tests.pipeline.publishers import Publishers

START = 1_700_000_000_000


class Sender:
    """An agent reduced to what a recorder sees of it; each notification is sent 10 ms after the last."""

    def __init__(
        self,
        name: str = "psu",
        secret: str | None = "a key of the lab",
        epoch: int = 7,
        start: int = START,
        **codec: Any,
    ) -> None:
        self.name, self.epoch, self.now = name, epoch, start
        self.agent_id = name.encode().hex().rjust(32, "0")
        keyring = Keyring.from_key(secret) if secret else None
        self.codec = Codec(keyring, **{"serializer": "msgpack", **codec})
        self.ids = MessageIds(epoch)

    def frames(self, topic: str, content: object, sequence: int = 0, **options: Any) -> list[bytes]:
        made = self.codec.encode(
            self.agent_id, topic, content, stamp=self.ids.next(self.now), sequence=sequence, **options
        )
        return [bytes(frame) for frame in made]

    def row(
        self, topic: str, content: object, sequence: int = 0, age: float = 0.002, **options: Any
    ) -> Notification:
        self.now += 10
        frames = self.frames(topic, content, sequence, **options)
        sent = self.now / 1000
        return Notification(
            self.agent_id, self.name, topic, "", sequence, self.epoch, sent, sent + age, None,
            frames=tuple(frames),
        )  # fmt: skip

    def sealed(self, topic: str, body: bytes, sequence: int = 0) -> Notification:
        """One whose content is signed as it is, whatever a serializer would say of it."""
        stamp, name = self.ids.next(self.now), self.codec.serializer.encode()
        header = format_header(PZC01, self.agent_id, topic, sequence)
        key = None if self.codec.keyring is None else self.codec.keyring.active
        sealer = signing.sealer(key, Suite.HMAC_SHA256, Kind.NOTIFICATION, self.agent_id, "", self.epoch)
        tag, sealed = sealer.seal(stamp, header, name, stamp.urn_frame(), body)
        frames = header, name, bytes(sealed), stamp.urn_frame(), tag.join(sealer.mark)
        return replace(self.row(topic, None, sequence), frames=frames)

    def rows(self, topic: str, contents: Iterable[object], first: int = 0) -> list[Notification]:
        return [self.row(topic, content, i) for i, content in enumerate(contents, first)]


def append(journal: Journal, row: Notification) -> int:
    """Take a row, and write what is due, as a recorder does; its offset."""
    offset = journal.take(row)
    journal.tick()
    return offset


@pytest.fixture(scope="session")
def make_sender() -> type[Sender]:
    return Sender


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Path]:
    """Write rows as one segment of the test's journal and give its directory."""

    def write(rows: Iterable[Notification], recorder: str = "recorder") -> Path:
        directory = tmp_path / "journal"
        with Journal(directory, recorder=recorder) as journal:
            for row in rows:
                append(journal, row)
        return directory

    return write


@pytest.fixture
def publishers(forge: Forge) -> Iterator[Publishers]:
    with Publishers(forge) as made:
        yield made


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def small_files() -> Iterator[Callable[[int | None], None]]:
    """Let the kernel refuse files above a size, as a full disk does; None lifts the limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int | None) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft if size is None else size, hard))

    yield limit
    limit(None)


def a_row(sequence: int = 0, content: Any = b"\x01", **fields: Any) -> Notification:
    frames = (b"PZC01+a+t+%d+" % sequence, b"msgpack", content, b"urn:uuid:x", b"\x00")
    row = Notification("a", "", "t", "", sequence, 0, 1_700_000_000.0, 1_700_000_000.25, None, frames=frames)
    return replace(row, **fields)


def written(directory: Path, recorder: str | None = None) -> list[dict[str, Any]]:
    return [row for _, path in segments(directory, recorder) for row in pq.read_table(path).to_pylist()]


def sequences(directory: Path) -> list[object]:
    return [row["sequence"] for row in written(directory)]


def visible(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith("."))


def damaged(row: Notification) -> Notification:
    """With another content than the one that was signed."""
    content = row.frames[2]
    changed = content[:-1] + bytes([content[-1] ^ 1])
    return replace(row, frames=(*row.frames[:2], changed, *row.frames[3:]))
