from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pzc.delivery.patience import Patience

from tests.effort import many

LINKS = st.sampled_from("abc")


class Publications(RuleBasedStateMachine):
    """Waits in any order beside the two sets that the rule is about."""

    @initialize()
    def start(self) -> None:
        self.patience = Patience()
        self.number = 0
        self.known: set[str] = set()
        self.impatient: set[str] = set()

    @rule(links=st.sets(LINKS))
    def begin(self, links: set[str]) -> None:
        self.number += 1
        assert self.patience.begin(self.number, links) == links - self.impatient
        self.known |= links

    @rule(links=st.sets(LINKS))
    def missed(self, links: set[str]) -> None:
        self.patience.missed(links)
        self.impatient |= links & self.known

    @rule(link=LINKS)
    def acknowledged(self, link: str) -> None:
        self.patience.acknowledged(link)
        self.impatient.discard(link)

    @rule(link=LINKS)
    def forget(self, link: str) -> None:
        self.patience.forget(link)
        self.known.discard(link)
        self.impatient.discard(link)

    @invariant()
    def only_links_that_missed_a_wait_are_not_waited_for(self) -> None:
        assert set(self.patience.missing()) == self.impatient


TestPublications = Publications.TestCase
TestPublications.settings = settings(max_examples=many(100), stateful_step_count=30)


def test_a_link_that_missed_is_not_waited_for_until_it_acknowledges() -> None:
    patience = Patience()
    assert patience.begin(1, ["slow", "quick"]) == {"slow", "quick"}
    patience.missed(["slow"])
    assert patience.begin(2, ["slow", "quick"]) == {"quick"}
    assert patience.begin(3, ["slow", "quick"]) == {"quick"}
    patience.acknowledged("slow")
    assert patience.begin(4, ["slow", "quick"]) == {"slow", "quick"}


def test_the_number_that_a_link_missed_is_remembered() -> None:
    patience = Patience()
    patience.begin(7, ["a"])
    patience.missed(["a"])
    patience.begin(8, ["a"])
    patience.missed(["a"])
    assert patience.missing() == {"a": 7}


def test_a_link_that_died_during_the_wait_leaves_nothing_behind() -> None:
    patience = Patience()
    patience.begin(1, ["a"])
    patience.forget("a")
    patience.missed(["a"])
    assert patience.missing() == {}
    assert patience.begin(2, ["a"]) == {"a"}
