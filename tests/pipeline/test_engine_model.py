"""The engine against a model: whatever is recorded, compacted, killed or lost, each row ends in the tables once."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pzc.pipeline.recording.segments import merge_segments
from pzc.pipeline.schema import compacted_name, segment_span, segments
from pzc.pipeline.tables.commit_log import FOLDER
from pzc.pipeline.tables.run import backfill

from tests.pipeline.engine_rig import SENT, Field, Sent, record
from tests.pipeline.following import Dying, Killed, Lab

FIELD = Field()

Action = tuple[str, object]
ACTIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("record"), st.tuples(st.sampled_from("ab"), st.lists(SENT, min_size=1, max_size=5))
        ),
        st.tuples(st.just("run"), st.integers(1, 3)),
        st.tuples(st.just("killed"), st.tuples(st.integers(0, 12), st.booleans())),
        st.tuples(st.just("compact"), st.booleans()),
        st.tuples(st.just("lose the log"), st.none()),
        st.tuples(st.just("backfill"), st.none()),
    ),
    max_size=10,
)


class Model:
    """What was recorded, and the lab that has to store it."""

    def __init__(self, folder: Path) -> None:
        self.lab = Lab(folder)
        self.lab.journal.mkdir()
        self.rows: list[Sent] = []

    def act(self, action: Action) -> None:
        name, given = action
        getattr(self, "_" + name.replace(" ", "_"))(given)

    def _record(self, given: tuple[str, list[Sent]]) -> None:
        recorder, rows = given
        record(self.lab.journal, recorder, map(FIELD.row, rows))
        self.rows += rows

    def _run(self, max_files: int) -> None:
        self.lab.run(max_files=max_files)

    def _killed(self, given: tuple[int, bool]) -> None:
        steps, torn = given
        with contextlib.suppress(Killed):
            self.lab.run(storage=Dying(steps, torn))

    def _compact(self, remove: bool) -> None:
        """Make one segment of the first two of a recorder; those that it stands for may stay for a while."""
        journal = self.lab.journal
        paths = [path for _, path in segments(journal)]
        pairs = [
            (one, other) for one, other in itertools.pairwise(paths)
            if segment_span(one)[0] == segment_span(other)[0]
        ]  # fmt: skip
        if not pairs:
            return
        one, other = pairs[0]
        recorder, first, _ = segment_span(one)
        following = [path for path in paths if path > other and segment_span(path)[0] == recorder]
        if not following:
            return
        last = segment_span(following[0])[1] - 1
        merge_segments(journal, compacted_name(recorder, first, last), [one, other], first, last, 1e9)
        if remove:
            one.unlink()
            other.unlink()

    def _lose_the_log(self, _: None) -> None:
        shutil.rmtree(self.lab.tables / FOLDER, ignore_errors=True)

    def _backfill(self, _: None) -> None:
        day = datetime.date(2023, 11, 14)
        lab = self.lab
        backfill(lab.journal, lab.tables, lab.settings(), lab.workers, day, day + datetime.timedelta(3))

    def check(self) -> None:
        self.lab.run()
        good = {sent for sent in self.rows if sent.kind != "broken"}
        assert self.lab.rows("notifications", "value_double") == sorted((s.value for s in good), key=repr)
        broken = [sent for sent in self.rows if sent.kind == "broken"]
        assert len(self.lab.rows("quarantine", "offset")) == len(broken)
        counted = Counter((sent.kind == "old", sent.start if sent.kind == "old" else 0) for sent in good)
        assert sorted(self.lab.rows("statistics", "count")) == sorted(counted.values())
        assert sum(self.lab.rows("gaps", "count")) == self._missing(good)

    @staticmethod
    def _missing(good: set[Sent]) -> int:
        missing = 0
        for start in (0, 1):
            numbers = {sent.number for sent in good if sent.kind == "signed" and sent.start == start}
            missing += max(numbers) - min(numbers) + 1 - len(numbers) if numbers else 0
        return missing


@given(ACTIONS)
@settings(max_examples=60, deadline=None)
def test_each_row_ends_in_the_tables_once(actions: list[Action]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder))
        for action in actions:
            model.act(action)
        model.check()
