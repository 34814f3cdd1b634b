"""What holds a secret stays in its process: it is neither sent nor stored, and nothing of it is read."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pzc import Agent, Key, Keyring, Protocol, Proxy, SerializeError, Server

from tests.contract.rigs.calling import TIMEOUT

SECRET = "a secret that stays where it is"


class OwnKey(Key):
    """A key of somebody's own class."""


HOLDERS: dict[str, Callable[[], Any]] = {
    "key": lambda: Key(SECRET),
    "subclass": lambda: OwnKey(SECRET),
    "keyring": lambda: Keyring.from_key(SECRET),
    "protocol": lambda: Protocol(SECRET),
    "codec": lambda: Protocol(SECRET).codec,
}
INSIDE: dict[str, Callable[[Any], Any]] = {
    "itself": lambda holder: holder,
    "in a list": lambda holder: [{"of": holder}],
    "in an exception": lambda holder: ValueError(holder),
    "in a partial": lambda holder: functools.partial(print, holder),
}
holders = pytest.mark.parametrize("holder", HOLDERS)


class Locker:
    """Has a protocol as an attribute, and gives it back."""

    def __init__(self) -> None:
        self.protocol = Protocol(SECRET)
        self.ring = Keyring.from_key(SECRET)

    def take(self, given: object) -> None:
        """Anything."""

    def fail(self) -> None:
        raise ValueError(self.ring)


@holders
@pytest.mark.parametrize("inside", INSIDE)
def test_it_is_not_pickled_wherever_it_is(holder: str, inside: str) -> None:
    with pytest.raises(TypeError, match="holds a secret, so it is not pickled, copied or sent"):
        pickle.dumps(INSIDE[inside](HOLDERS[holder]()))


@holders
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_it_is_not_copied(holder: str, copied: Callable[[Any], Any]) -> None:
    if holder == "codec" and copied is copy.copy:
        return  # shares the keyring
    with pytest.raises(TypeError, match="holds a secret"):
        copied(HOLDERS[holder]())


@holders
@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_it_is_no_argument_of_a_call(holder: str, inside: str, transport: str) -> None:
    with (
        Server(Locker(), protocol=Protocol(SECRET)) as server,
        Proxy(server.rep_endpoint, protocol=Protocol(SECRET), transport=transport, timeout=TIMEOUT) as locker,
        pytest.raises(SerializeError, match="holds a secret"),
    ):
        locker.take(INSIDE[inside](HOLDERS[holder]()))


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_an_exception_takes_none_along(transport: str) -> None:
    with (
        Server(Locker(), protocol=Protocol(SECRET)) as server,
        Proxy(server.rep_endpoint, protocol=Protocol(SECRET), transport=transport, timeout=TIMEOUT) as locker,
        pytest.raises(ValueError, match="Keyring") as raised,
    ):
        locker.fail()
    assert SECRET not in repr(raised.value.args)
    assert not any(isinstance(each, Keyring) for each in raised.value.args)


@holders
def test_it_is_no_notification(holder: str) -> None:
    with Agent(protocol=Protocol(SECRET)) as publisher, Agent(protocol=Protocol(SECRET)) as reader:
        heard: list[Any] = []
        reader.subscribe(publisher.rep_endpoint, "topic", heard.append, transport="tcp")
        with pytest.raises(SerializeError, match="holds a secret"):
            publisher.publish("topic", HOLDERS[holder]())


@pytest.mark.parametrize("path", [("ring", "active", "secret"), ("protocol", "codec", "keyring", "active")])
def test_nothing_of_it_is_read_by_a_path(path: tuple[str, ...]) -> None:
    with Server(Locker(), protocol=Protocol()) as server, Agent(protocol=Protocol()) as agent:
        content = ("PSMessage", "get", {"on": path[:-1], "name": path[-1]})
        answer = agent.request(server.rep_endpoint, content, TIMEOUT)
    assert answer[1] == "raise"
    assert "has no members that are served" in str(answer)


@holders
def test_a_repr_shows_no_secret(holder: str) -> None:
    assert SECRET not in repr(HOLDERS[holder]())
