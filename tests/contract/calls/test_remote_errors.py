from __future__ import annotations

import subprocess
import sys
import traceback

import pytest

from pzc import Protocol, Proxy, RemoteError, RoleRefused, Server, close

from tests.contract.rigs import failing
from tests.contract.rigs.calling import KEY, TIMEOUT, proxied, served
from tests.contract.rigs.failing import (
    Faulty,
    HeavyError,
    HostileError,
    OddError,
    RangeError,
    failure_of,
)
from tests.contract.rigs.supply import Tripped

faulty = failing.faulty

BUILTIN = [
    ValueError("out of range"), KeyError("k"), ZeroDivisionError(), OSError(2, "no such device", "/dev/psu"),
    UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), TimeoutError("t"), StopIteration(3), Exception(), Exception(1, [2]),
    NotImplementedError("n"), AssertionError("a"),
]  # fmt: skip


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


def test_a_remote_cause_is_in_the_note(faulty: tuple[Faulty, Proxy]) -> None:
    error = ValueError("out of range")
    error.__cause__ = KeyError("the cause")
    assert "KeyError: 'the cause'" in failure_of(*faulty, error).__notes__[0]


def test_a_cause_arrives_with_its_error(faulty: tuple[Faulty, Proxy]) -> None:
    error = RuntimeError("no answer")
    error.__cause__ = ValueError("port gone")
    cause = failure_of(*faulty, error).__cause__
    assert (type(cause), str(cause)) == (ValueError, "port gone")


def test_a_group_of_errors_arrives_as_a_group(faulty: tuple[Faulty, Proxy]) -> None:
    found = failure_of(*faulty, ExceptionGroup("two channels", [Tripped(1, 2.0), ValueError("x")]))
    assert isinstance(found, ExceptionGroup)
    assert [type(each) for each in found.exceptions] == [Tripped, ValueError]


def test_remote_tracebacks_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_HIDE_TRACEBACK", "1")
    with served(Faulty()) as (_, proxy), pytest.raises(ValueError, match="none") as caught:
        proxy.fail()
    assert not hasattr(caught.value, "__notes__")


def test_an_exception_class_of_the_lab_comes_back_as_itself_when_signed() -> None:
    target = Faulty()
    with served(target, key=KEY) as (_, proxy):
        assert type(failure_of(target, proxy, RangeError("r"))) is RangeError


def test_an_exception_that_carries_a_lock_arrives_with_type_text_and_traceback(
    faulty: tuple[Faulty, Proxy],
) -> None:
    found = failure_of(*faulty, HeavyError("heavy"))
    assert type(found) is HeavyError
    assert str(found) == "heavy"
    assert "in deeper" in found.__notes__[0]
    assert faulty[1].fine() == 7


@pytest.mark.parametrize("error", [OddError(1, 2.5), HostileError("h")], ids=repr)
def test_an_exception_that_both_sides_have_is_rebuilt_without_its_constructor(
    faulty: tuple[Faulty, Proxy], error: Exception
) -> None:
    found = failure_of(*faulty, error)
    assert type(found) is type(error)
    assert (str(found), found.args) == (str(error), error.args)
    assert faulty[1].fine() == 7


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


def test_an_error_that_passed_two_servers_still_says_where_it_came_from() -> None:
    target = Faulty()
    with served(target) as (server, _):
        target.error = HeavyError("heavy")

        class Relay:
            def __init__(self) -> None:
                self._next = Proxy(server.rep_endpoint)

            def fail(self) -> None:
                self._next.fail()

            def release(self) -> None:
                close(self._next)

        with served(Relay()) as (_, relay):
            with pytest.raises(HeavyError, match="heavy") as caught:
                relay.fail()
            relay.release()
    assert "in deeper" in caught.value.__notes__[0]


class MuteError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("mute")


@pytest.mark.parametrize("error", [RoleRefused("no"), MuteError()], ids=lambda error: type(error).__name__)
def test_an_exception_of_ours_and_one_that_cannot_say_what_it_is_come_back_as_themselves(
    faulty: tuple[Faulty, Proxy], error: Exception
) -> None:
    assert type(failure_of(*faulty, error)) is type(error)


def test_the_remote_traceback_is_a_note_that_names_the_server(faulty: tuple[Faulty, Proxy]) -> None:
    found = failure_of(*faulty, ValueError("out of range"))
    (note,) = found.__notes__
    assert note.startswith("Remote traceback (tcp://127.0.0.1:")
    assert "in deeper" in note
    assert note.endswith("ValueError: out of range")
    assert "in deeper" in "".join(traceback.format_exception(found))
