"""Names that cannot be reached from where they are asked for are told as hidden, unless the asker finds them here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pzc.discovery.hidden import AT_ONCE, MOST, PAUSE, Hiding

from tests.discovery.network import Network

ASKER, VIEW = b"p" * 16, 2


def entry(name: str = "/psu", scope: str = "all"):
    return replace(Network().start(0).agent(name), scope=scope)


def test_a_name_that_is_asked_for_from_elsewhere_is_told_after_a_pause() -> None:
    hiding = Hiding()
    hiding.ask(ASKER, VIEW, [entry()], ["/psu"], 10.0)
    assert hiding.next == 10.0 + PAUSE
    assert hiding.due(10.0) == []
    ((view, names, host),) = hiding.due(10.0 + PAUSE)
    assert (view, names, bool(host)) == (VIEW, ("/psu",), True)
    assert hiding.noted == ["/psu"]
    assert hiding.next is None


def test_an_asker_of_this_machine_is_told_nothing() -> None:
    hiding = Hiding()
    hiding.near(ASKER, 10.0)
    hiding.ask(ASKER, VIEW, [entry()], ["/psu"], 10.0)
    assert hiding.due(11.0) == []
    assert hiding.noted == []


@pytest.mark.parametrize(("wanted", "scope"), [("/dmm", "all"), ("/psu", "host")])
def test_other_names_and_those_that_stay_on_the_machine_are_not_told(wanted: str, scope: str) -> None:
    hiding = Hiding()
    hiding.ask(ASKER, VIEW, [entry(scope=scope)], [wanted], 10.0)
    assert hiding.next is None


def test_a_name_is_noted_once() -> None:
    hiding = Hiding()
    for now in (10.0, 20.0):
        hiding.ask(ASKER, VIEW, [entry()], ["/psu"], now)
        assert hiding.due(now + 1)
    assert hiding.noted == ["/psu"]


def test_one_answer_holds_few_names_and_few_questions_are_remembered() -> None:
    hiding, entries = Hiding(), [entry(f"/{number}") for number in range(9)]
    for number in range(MOST + 9):
        hiding.near(number.to_bytes(16, "big"), 1.0)
        hiding.ask(ASKER, VIEW, entries, [each.name for each in entries], 10.0)
    told = hiding.due(11.0)
    assert len(told) == MOST
    assert {len(names) for _, names, _ in told} == {AT_ONCE}


def test_what_others_hide_is_bounded_and_printable() -> None:
    hiding = Hiding()
    hiding.learn(["/psu", "/\x1b[2J"], "rack")
    assert hiding.heard == {"/psu": "rack"}
    hiding.learn((f"/{number}" for number in range(2 * MOST)), "rack")
    hiding.learn(["/psu"], "bench")
    assert len(hiding.heard) == MOST
    assert hiding.heard["/psu"] == "bench"
