"""What a lab does with an instrument: roles, callers, names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import (
    Agent,
    Key,
    Keyring,
    PeerLost,
    Protocol,
    Proxy,
    PzcError,
    Role,
    RoleRefused,
    Server,
    batch,
    discover,
)

from tests.contract.rigs.coming import coming
from tests.contract.rigs.supply import TIMEOUT, Supply, held


@pytest.fixture
def supply() -> Iterator[Supply]:
    made = Supply()
    yield made
    made.opened.set()


# Roles

KEYS = [Key(f"the secret of the {role.name.lower()}", role.name.lower(), role) for role in Role]


@contextlib.contextmanager
def observed(supply: object, **options: Any) -> Iterator[Any]:
    """A proxy with an observer's key."""
    admin, observer = Protocol(keyring=Keyring(KEYS, KEYS[2])), Protocol(keyring=Keyring(KEYS, KEYS[0]))
    with (
        Server(supply, protocol=admin, **options) as server,
        Proxy(server.rep_endpoint, protocol=observer, timeout=TIMEOUT) as proxy,
    ):
        yield proxy


def test_an_observer_calls_what_is_marked_as_reading(supply: Supply) -> None:
    with observed(supply, reading=("note",)) as psu:
        assert psu.voltage == 1.0
        assert psu.note() == 1
        with pytest.raises(RoleRefused):
            psu.off()


def test_an_observer_calls_and_sets_nothing_by_any_way(supply: Supply) -> None:
    def in_a_batch(psu: Any) -> None:
        with batch(psu) as calls:
            calls.off()
        _ = calls.results[0]

    ways: list[Any] = [
        lambda psu: psu.off(),
        lambda psu: psu.off.future().result(TIMEOUT),
        lambda psu: psu.off.options(timeout=5)(),
        lambda psu: list(psu.count()),
        lambda psu: setattr(psu, "voltage", 2.0),
        lambda psu: psu.changed.emit(1),
        in_a_batch,
    ]
    with observed(supply) as psu:
        for way in ways:
            with pytest.raises(RoleRefused):
                way(psu)
    assert not supply.calls
    assert supply.voltage == 1.0


def test_a_client_with_its_own_key_only_uses_a_server(supply: Supply) -> None:
    operator = KEYS[1]
    ring = Protocol(keyring=Keyring([KEYS[2], operator], KEYS[2]))
    mine = Protocol(keyring=Keyring([operator]))
    with (
        Server(supply, protocol=ring) as server,
        Proxy(server.rep_endpoint, protocol=mine, timeout=2) as psu,
    ):
        assert psu.note() == 1


# Callers, names


class Asked:
    """Says who called it."""

    def who(self) -> str:
        """Id of the caller's agent."""
        return coming("caller")().agent


def test_a_method_knows_who_called_it() -> None:
    with held(Asked()) as proxy:
        assert len(proxy.who()) == 32


def test_a_name_carries_metadata() -> None:
    with Agent(name="psu", metadata={"room": "B12"}):
        assert discover("psu", kind="agent")[0].metadata == {"room": "B12"}


def test_an_observer_makes_nothing_by_reading(supply: Supply) -> None:
    with observed(supply) as psu:
        with contextlib.suppress(KeyError, PeerLost, PzcError):
            _ = psu.names["second"]
        assert list(supply.names) == ["first"]


class Fuse:
    """Something with items, whose `get` is no look at them."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def __getitem__(self, index: object) -> int:
        return 1

    def get(self, what: object, default: object = None) -> int:
        """Do something."""
        self.asked.append(what)
        return 1


class Holder:
    """Has such an object."""

    def __init__(self) -> None:
        self.fuse = Fuse()


def test_an_observer_runs_no_code_by_asking_for_an_item() -> None:
    holder = Holder()
    admin, observer = Protocol(keyring=Keyring(KEYS, KEYS[2])), Protocol(keyring=Keyring(KEYS, KEYS[0]))
    options = {"name": "fuse", "method": "get", "args": ("fire",)}
    with Server(holder, protocol=admin) as server, Agent(protocol=observer) as client:
        client.request(server.rep_endpoint, ("PSMessage", "exec", options), timeout=TIMEOUT)
    assert not holder.fuse.asked


class Tape:
    """Something with items and no length; it notes each that is read, and ends late, but for the test."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __getitem__(self, index: int) -> int:
        if index >= 100:
            raise IndexError(index)
        self.read.append(index)
        return 0


class Deck:
    """Has such a thing, and one that is used up by looking."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.reel = iter([1, 2, 3])


@pytest.mark.parametrize("name", ["tape", "reel"])
def test_an_observer_does_not_have_a_thing_searched_that_may_have_no_end(name: str) -> None:
    deck = Deck()
    with observed(deck) as proxy, pytest.raises(RoleRefused):
        _ = 7 in getattr(proxy, name)
    assert not deck.tape.read
    assert list(deck.reel) == [1, 2, 3]


def test_an_observer_who_reads_no_references_gets_no_list_of_what_may_have_no_end() -> None:
    deck = Deck()
    both = ("PZC01", "PZC00")
    admin = Protocol(keyring=Keyring(KEYS, KEYS[2]), accept=both)
    original = Protocol(keyring=Keyring(KEYS, KEYS[0]), accept=both, dialect="PZC00", serializer="json")
    options = {"name": "tape", "method": "__iter__"}
    with Server(deck, protocol=admin) as server, Agent(protocol=original) as client:
        answer = client.request(server.rep_endpoint, ("PSMessage", "exec", options), timeout=TIMEOUT)
    assert not deck.tape.read, answer
