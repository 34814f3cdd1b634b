from __future__ import annotations

import graphlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pzc.delivery.graph import TopicGraph
from pzc.protocol.errors import CycleRefused, Refused, UnknownName

from tests.effort import many

TOPICS = "abcdef"
EDGE = st.tuples(st.sampled_from(TOPICS), st.sampled_from(TOPICS))


def ways(edges: set[tuple[str, str]], start: str) -> set[str]:
    """What one gets to in one step or more, found by growing the set until nothing is new."""
    found: set[str] = set()
    while more := {b for a, b in edges if a == start or a in found} - found:
        found |= more
    return found


class Registry(RuleBasedStateMachine):
    """A graph beside the plain set of its edges."""

    @initialize()
    def start(self) -> None:
        self.graph = TopicGraph()
        self.edges: set[tuple[str, str]] = set()

    @rule(edge=EDGE)
    def connect(self, edge: tuple[str, str]) -> None:
        source, target = edge
        edges = self.edges | {edge}
        if source in ways(edges, source):
            with pytest.raises(CycleRefused):
                self.graph.connect(source, target)
        else:
            self.graph.connect(source, target)
            self.edges = edges

    @rule(edge=EDGE)
    def disconnect(self, edge: tuple[str, str]) -> None:
        source, target = edge
        if edge in self.edges:
            self.graph.disconnect(source, target)
            self.edges.remove(edge)
        else:
            with pytest.raises(UnknownName):
                self.graph.disconnect(source, target)

    @invariant()
    def it_has_no_cycle(self) -> None:
        sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
        for source, target in self.graph.connections():
            sorter.add(target, source)
        sorter.prepare()

    @invariant()
    def it_holds_what_was_connected(self) -> None:
        assert sorted(self.graph.connections()) == sorted(self.edges)
        assert len(self.graph) == len(self.edges)

    @invariant()
    def it_knows_what_flows_where(self) -> None:
        for topic in TOPICS:
            assert self.graph.reachable(topic) == ways(self.edges, topic)
            assert self.graph.upstream(topic) == ways({(b, a) for a, b in self.edges}, topic)


TestRegistry = Registry.TestCase
TestRegistry.settings = settings(max_examples=many(60), stateful_step_count=40)


def test_a_cycle_is_refused_as_a_value_error_that_names_both_topics() -> None:
    graph = TopicGraph()
    graph.connect("raw", "filtered")
    graph.connect("filtered", "shown")
    with pytest.raises(ValueError, match="'shown' cannot be connected to 'raw'") as caught:
        graph.connect("shown", "raw")
    assert isinstance(caught.value, CycleRefused)
    assert graph.reachable("shown") == frozenset()


def test_a_topic_is_not_connected_to_itself() -> None:
    with pytest.raises(CycleRefused):
        TopicGraph().connect("a", "a")


def test_a_connection_that_does_not_exist_cannot_be_ended() -> None:
    graph = TopicGraph()
    graph.connect("a", "b")
    with pytest.raises(UnknownName, match="'b' is not connected to 'a'"):
        graph.disconnect("b", "a")


def test_the_number_of_connections_is_bounded() -> None:
    graph = TopicGraph(max_connections=1)
    graph.connect("a", "b")
    graph.connect("a", "b")
    with pytest.raises(Refused, match="there are 1 connections already"):
        graph.connect("a", "c")
    graph.disconnect("a", "b")
    graph.connect("a", "c")


def test_topics_between_which_there_are_very_many_ways_are_visited_once() -> None:
    graph = TopicGraph()
    for number in range(60):
        for way in "ab":
            graph.connect(f"{number}", f"{number}{way}")
            graph.connect(f"{number}{way}", f"{number + 1}")
    assert len(graph.reachable("0")) == 180


def test_a_long_chain_is_followed_to_its_end() -> None:
    graph = TopicGraph()
    for number in range(3000):
        graph.connect(str(number), str(number + 1))
    assert (len(graph.reachable("0")), len(graph.upstream("3000"))) == (3000, 3000)
