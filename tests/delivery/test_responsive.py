from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pzc.delivery.responsive import ResponsiveLinks

from tests.effort import many

LINKS = st.sampled_from("abc")


class Publications(RuleBasedStateMachine):
    """Waits in any order beside the two sets that the rule is about."""

    @initialize()
    def start(self) -> None:
        self.responsive = ResponsiveLinks()
        self.number = 0
        self.known: set[str] = set()
        self.impatient: set[str] = set()

    @rule(links=st.sets(LINKS))
    def begin(self, links: set[str]) -> None:
        self.number += 1
        assert self.responsive.begin(self.number, links) == links - self.impatient
        self.known |= links

    @rule(links=st.sets(LINKS))
    def missed(self, links: set[str]) -> None:
        self.responsive.missed(links)
        self.impatient |= links & self.known

    @rule(link=LINKS)
    def acknowledged(self, link: str) -> None:
        self.responsive.acknowledged(link)
        self.impatient.discard(link)

    @rule(link=LINKS)
    def forget(self, link: str) -> None:
        self.responsive.forget(link)
        self.known.discard(link)
        self.impatient.discard(link)

    @invariant()
    def only_links_that_missed_a_wait_are_not_waited_for(self) -> None:
        assert set(self.responsive.missing()) == self.impatient


TestPublications = Publications.TestCase
TestPublications.settings = settings(max_examples=many(100), stateful_step_count=30)


def test_a_link_that_missed_is_not_waited_for_until_it_acknowledges() -> None:
    responsive = ResponsiveLinks()
    assert responsive.begin(1, ["slow", "quick"]) == {"slow", "quick"}
    responsive.missed(["slow"])
    assert responsive.begin(2, ["slow", "quick"]) == {"quick"}
    assert responsive.begin(3, ["slow", "quick"]) == {"quick"}
    responsive.acknowledged("slow")
    assert responsive.begin(4, ["slow", "quick"]) == {"slow", "quick"}


def test_the_number_that_a_link_missed_is_remembered() -> None:
    responsive = ResponsiveLinks()
    responsive.begin(7, ["a"])
    responsive.missed(["a"])
    responsive.begin(8, ["a"])
    responsive.missed(["a"])
    assert responsive.missing() == {"a": 7}


def test_a_link_that_died_during_the_wait_leaves_nothing_behind() -> None:
    responsive = ResponsiveLinks()
    responsive.begin(1, ["a"])
    responsive.forget("a")
    responsive.missed(["a"])
    assert responsive.missing() == {}
    assert responsive.begin(2, ["a"]) == {"a"}
