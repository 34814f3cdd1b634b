from __future__ import annotations

import builtins
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from pzc import (
    Protocol,
    Proxy,
    PzcError,
    RemoteError,
    SerializeError,
    Server,
    close,
    register_class,
)
from pzc.agents.messages import (
    as_original,
    portable,
    raised,
    read_ps_message,
    read_raised,
    read_refusal,
    refusal,
)
from pzc.protocol import errors
from pzc.protocol.unpickle_rules import REGISTERED

from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, served

BUILTIN = [
    ValueError("out of range"), KeyError("k"), ZeroDivisionError(), OSError(2, "no such device", "/dev/psu"),
    UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), TimeoutError("t"), StopIteration(3), Exception(), Exception(1, [2]),
    NotImplementedError("n"), AssertionError("a"),
]  # fmt: skip


class RangeError(ValueError):
    """An instrument's own error."""


class OddError(Exception):
    """Its constructor takes something else than it passes on."""

    def __init__(self, channel: int, value: float) -> None:
        super().__init__(f"channel {channel}: {value} V")


class HeavyError(Exception):
    """Carries what no serializer can express."""

    def __init__(self, text: str) -> None:
        super().__init__(text, threading.Lock())

    def __str__(self) -> str:
        return str(self.args[0])


class MuteError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("mute")


class HostileError(Exception):
    """Fails when it is rebuilt."""

    def __reduce__(self) -> Any:
        return explode, ()


def explode() -> None:
    raise MemoryError("while being rebuilt")


class Faulty:
    """Raises what it is told."""

    error: BaseException = ValueError("none")

    def fail(self) -> None:
        deeper(self.error)

    @property
    def broken(self) -> int:
        raise self.error

    @broken.setter
    def broken(self, value: int) -> None:
        raise self.error

    def value(self) -> Any:
        return threading.Lock()

    def fine(self) -> int:
        return 7


def deeper(error: BaseException) -> None:
    raise error


@pytest.fixture(params=["", KEY], ids=["unsigned", "signed"])
def faulty(request: pytest.FixtureRequest) -> Iterator[tuple[Faulty, Proxy]]:
    target = Faulty()
    with served(target, key=request.param) as (_, proxy):
        yield target, proxy


def failure_of(target: Faulty, proxy: Proxy, error: BaseException) -> BaseException:
    target.error = error
    try:
        proxy.fail()
    except Exception as exc:
        return exc
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("error", BUILTIN, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("serializer", ["pickle", "json", "msgpack"])
@pytest.mark.parametrize("key", ["", KEY], ids=["unsigned", "signed"])
def test_a_builtin_exception_comes_back_as_itself(error: Exception, serializer: str, key: str) -> None:
    target = Faulty()
    with (
        Server(target, protocol=Protocol(key)) as server,
        proxied(server.rep_endpoint, protocol=Protocol(key, serializer)) as proxy,
    ):
        found = failure_of(target, proxy, error)
    assert type(found) is type(error)
    assert str(found) == str(error)


def test_an_exception_of_ours_comes_back_as_itself(faulty: tuple[Faulty, Proxy]) -> None:
    found = failure_of(*faulty, errors.RoleRefused("no"))
    assert type(found) is errors.RoleRefused


def test_the_remote_traceback_is_a_note_and_an_attribute(faulty: tuple[Faulty, Proxy]) -> None:
    found = failure_of(*faulty, ValueError("out of range"))
    (note,) = found.__notes__
    endpoint = faulty[1]._proxy_remote.endpoint
    assert note.startswith(f"Remote traceback ({endpoint}):\n")
    assert "in deeper" in note
    assert note.endswith("ValueError: out of range")
    assert "".join(found.__dict__["_pzc_traceback"]).endswith("ValueError: out of range\n")
    assert "in deeper" in "".join(traceback.format_exception(found))


def test_a_remote_cause_is_in_the_note(faulty: tuple[Faulty, Proxy]) -> None:
    error = ValueError("out of range")
    error.__cause__ = KeyError("the cause")
    assert "KeyError: 'the cause'" in failure_of(*faulty, error).__notes__[0]


def test_remote_tracebacks_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_HIDE_TRACEBACK", "1")
    with served(Faulty()) as (_, proxy), pytest.raises(ValueError, match="none") as caught:
        proxy.fail()
    assert not hasattr(caught.value, "__notes__")


def test_an_exception_class_of_the_lab_comes_back_as_itself_when_signed() -> None:
    target = Faulty()
    with served(target, key=KEY) as (_, proxy):
        assert type(failure_of(target, proxy, RangeError("r"))) is RangeError


def test_unsigned_it_becomes_a_remote_error_unless_the_class_is_registered() -> None:
    target = Faulty()
    with served(target) as (_, proxy):
        found = failure_of(target, proxy, RangeError("r"))
        assert isinstance(found, RemoteError)
        assert (found.type_name, found.text) == (f"{__name__}.RangeError", "r")
        try:
            register_class(RangeError)
            assert type(failure_of(target, proxy, RangeError("r"))) is RangeError
        finally:
            del REGISTERED[RangeError.__module__, RangeError.__qualname__]
            from pzc.protocol import exceptions

            del exceptions.REBUILT[exceptions.qualified(RangeError)]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OddError(1, 2.5), "channel 1: 2.5 V"), (HeavyError("heavy"), "heavy"), (HostileError("h"), "h"),
    ],
)  # fmt: skip
def test_an_exception_that_cannot_be_rebuilt_arrives_with_name_text_and_traceback(
    faulty: tuple[Faulty, Proxy], error: Exception, text: str
) -> None:
    found = failure_of(*faulty, error)
    assert isinstance(found, RemoteError)
    assert (found.type_name, found.text) == (f"{__name__}.{type(error).__name__}", text)
    assert "in deeper" in found.remote_traceback
    assert "in deeper" in found.__notes__[0]
    assert faulty[1].fine() == 7


def test_an_exception_that_cannot_say_what_it_is_arrives_all_the_same(faulty: tuple[Faulty, Proxy]) -> None:
    found = failure_of(*faulty, MuteError())
    if faulty[1]._proxy_remote.agent.protocol.signed:
        assert type(found) is MuteError
    else:
        assert str(found) == f"{__name__}.MuteError: <no text: RuntimeError>"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_would_end_a_process_ends_neither_side(
    faulty: tuple[Faulty, Proxy], error: BaseException
) -> None:
    found = failure_of(*faulty, error)
    assert isinstance(found, RemoteError)
    assert found.type_name == f"builtins.{type(error).__name__}"
    assert faulty[1].fine() == 7


SCRIPT = """
import sys
from pzc import Protocol, Server
class LocalError(Exception): pass
class Served:
    def fail(self): raise LocalError("known here only")
server = Server(Served(), protocol=Protocol(sys.argv[1]))
print(server.rep_endpoint, flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.mark.parametrize("key", ["", KEY], ids=["unsigned", "signed"])
def test_an_exception_class_that_is_unknown_here_becomes_a_remote_error(key: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        with proxied(child.stdout.readline().strip(), protocol=Protocol(key), timeout=TIMEOUT) as proxy:
            with pytest.raises(RemoteError, match=r"__main__\.LocalError: known here only") as caught:
                proxy.fail()
        child.communicate(timeout=TIMEOUT)
    assert "LocalError: known here only" in caught.value.remote_traceback


def test_a_property_that_raises_raises_here_for_reading_and_setting(faulty: tuple[Faulty, Proxy]) -> None:
    target, proxy = faulty
    target.error = OSError(5, "no answer")
    with pytest.raises(OSError, match="no answer"):
        proxy.broken
    with pytest.raises(OSError, match="no answer"):
        proxy.broken = 1


def test_a_property_that_raises_does_not_disturb_the_others(faulty: tuple[Faulty, Proxy]) -> None:
    assert dir(faulty[1]) == ["broken", "error", "fail", "fine", "value"]


def test_a_result_that_cannot_be_sent_is_told_with_its_reason(faulty: tuple[Faulty, Proxy]) -> None:
    _, proxy = faulty
    with pytest.raises(SerializeError, match=r"gave a _thread\.lock"):
        proxy.value()
    assert proxy.fine() == 7


def test_an_error_that_passed_two_servers_still_says_where_it_came_from() -> None:
    target = Faulty()
    with served(target) as (server, _):
        target.error = OddError(1, 2.0)

        class Relay:
            def __init__(self) -> None:
                self._next = Proxy(server.rep_endpoint)

            def fail(self) -> None:
                self._next.fail()

            def release(self) -> None:
                close(self._next)

        with served(Relay()) as (_, relay):
            with pytest.raises(RemoteError, match=r"OddError: channel 1: 2\.0 V") as caught:
                relay.fail()
            relay.release()
    assert "in deeper" in caught.value.remote_traceback


@pytest.mark.parametrize(
    "options",
    [
        None,
        7,
        "text",
        (),
        (1,),
        (1, 2, 3),
        ({}, 7),
        ({"type": 1}, []),
        ({"encoded": 7}, []),
        ({"encoded": b"\x80"}, []),
        (7, []),
    ],
)
def test_a_malformed_raise_reply_is_a_remote_error(options: object) -> None:
    for trusted in (True, False):
        found = read_raised(options, "tcp://x:1", "pickle", trusted, hide_traceback=False)
        assert isinstance(found, RemoteError)


@pytest.mark.parametrize(
    "cls",
    sorted(
        {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, PzcError)}
        - {RemoteError, errors.LockedBy},
        key=str,
    ),
)
def test_every_error_of_ours_survives_a_refusal(cls: type[PzcError]) -> None:
    found = read_refusal(refusal(cls("what happened")))
    assert type(found) is cls
    assert str(found) == "what happened"


def test_who_holds_a_lock_since_when_and_why_survives_a_refusal() -> None:
    found = read_refusal(refusal(errors.LockedBy("alice (agent 3f2a90c1)", 1_700_000_000.5, "calibrating")))
    assert isinstance(found, errors.LockedBy)
    assert (found.owner, found.since, found.reason) == (
        "alice (agent 3f2a90c1)", 1_700_000_000.5, "calibrating"
    )  # fmt: skip


@pytest.mark.parametrize(
    "content", [None, [], ["PZCError"], ["PZCError", 7], ["x", {}], {"PZCError": 1}, "PZCError"]
)
def test_other_content_is_no_refusal(content: object) -> None:
    assert read_refusal(content) is None


def test_a_refusal_of_an_unknown_code_is_a_remote_error() -> None:
    found = read_refusal(["PZCError", {"code": "os.system", "text": "t"}])
    assert isinstance(found, RemoteError)
    assert found.type_name == "os.system"


@pytest.mark.parametrize(
    "error",
    [errors.RoleRefused("no"), errors.PeerLost("no"), errors.CallTimeout("no"), errors.MemberRefused("no")],
)
def test_an_original_peer_gets_a_builtin_exception_for_ours(error: PzcError) -> None:
    found = as_original(error, "pickle")
    assert type(found).__module__ == "builtins"
    assert isinstance(error, type(found))
    assert str(found) == "no"


@pytest.mark.parametrize(
    "error",
    [SystemExit(1), KeyboardInterrupt(), OddError(1, 2), HeavyError("h"), HostileError("x"), MuteError()],
    ids=lambda e: type(e).__name__,
)
def test_an_original_peer_gets_what_it_can_rebuild_and_survive(error: BaseException) -> None:
    found = as_original(error, "pickle")
    if isinstance(error, MuteError):
        assert found is error
    else:
        assert type(found) is RuntimeError
        assert type(error).__name__ in str(found)


def test_portable_leaves_other_messages_alone() -> None:
    for content in (7, ("PSMessage", "return", ValueError()), "PSMessage"):
        assert portable(content, "PZC01", "pickle") is content


def test_a_portable_exception_is_readable_without_its_class() -> None:
    message = read_ps_message(portable(raised(RangeError("r")), "PZC01", "json"))
    assert message is not None
    assert message[1][0]["type"] == f"{__name__}.RangeError"
    assert builtins.type(message[1][0]["encoded"]) is bytes
