"""A name belongs to the key that announced it first, until nobody of that key has had it for a while."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pzc.discovery.index import _NAME_KEPT, MAX_LEFT, Claims, Key

from tests.effort import many

NAMES, KEYS = st.sampled_from(["/a", "/b"]), st.sampled_from(["", "lab", "other"])
ENTRIES = st.integers(0, 3).map(lambda number: (b"p" * 16, number))


class Naming(RuleBasedStateMachine):
    """Beside a list of who has what since when."""

    def __init__(self) -> None:
        super().__init__()
        self.claims, self.now = Claims(), 100.0
        self.keys: dict[str, str] = {}
        self.entries: dict[str, set[Key]] = {}
        self.left: dict[str, float] = {}
        self.wanted: set[str] = set()

    @rule(name=NAMES, key=KEYS, entry=ENTRIES)
    def announced(self, name: str, key: str, entry: Key) -> None:
        mine = self.keys.setdefault(name, key) == key
        assert self.claims.claim(name, key, entry) is mine
        if mine:
            self.entries.setdefault(name, set()).add(entry)
            self.left.pop(name, None)
        else:
            self.wanted.add(name)

    @rule(name=NAMES, entry=ENTRIES)
    def goes(self, name: str, entry: Key) -> None:
        self.claims.release(name, entry, self.now)
        held = self.entries.get(name, set())
        if entry in held:
            held.discard(entry)
            if not held and self.keys[name]:
                self.left[name] = self.now + _NAME_KEPT
            elif not held:
                del self.keys[name]

    @rule(seconds=st.sampled_from([1.0, 31.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        free = {name for name, at in self.left.items() if at <= self.now}
        for name in free:
            del self.left[name], self.keys[name]
        assert self.claims.due(self.now) == free & self.wanted
        self.wanted -= free

    @invariant()
    def the_next_moment_is_told(self) -> None:
        assert (self.claims.next is None) is (not self.left)


TestNaming = Naming.TestCase
TestNaming.settings = settings(max_examples=many(60), stateful_step_count=30, deadline=None)


def test_of_too_many_names_that_were_left_one_is_free_at_once() -> None:
    many_claims = Claims()
    entry = (b"p" * 16, 1)
    for number in range(MAX_LEFT + 1):
        many_claims.claim(f"/{number}", "lab", entry)
        many_claims.release(f"/{number}", entry, 5.0)
    many_claims.due(5.0)
    taken = [many_claims.claim(f"/{number}", "other", entry) for number in range(MAX_LEFT + 1)]
    assert taken == [True, *[False] * MAX_LEFT]
