"""What a server raised: for peers that have its class, for those that have not, for originals; and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from pzc.protocol import contents
from pzc.protocol.errors import CallTimeout, LockedBy, PeerLost, RemoteError
from pzc.protocol.frames import PZC00, PZC01


class Odd(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Guarded(Exception):
    """Runs code when its attribute is set."""

    limit = property(lambda self: 0, lambda self, value: ran.append(value))


ran: list[object] = []


def raising(error: BaseException) -> tuple[str, str, object]:
    try:
        raise error
    except BaseException as exc:
        return contents.raised(exc)


def received(
    error: BaseException, serializer: str = "json", trusted: bool = False, hide: bool = False
) -> Any:
    """What the caller gets of a reply."""
    message = contents.read_ps_message(contents.portable(raising(error), PZC01, serializer))
    assert message is not None
    assert message[0] == "raise"
    return contents.read_raised(message[1], "tcp://h:1", serializer, trusted, hide)


@pytest.mark.parametrize("error", [ValueError("too high"), KeyError("x"), OSError(2, "no such file")])
@pytest.mark.parametrize("serializer", ["json", "msgpack"])
def test_a_builtin_exception_comes_back_as_itself_with_the_remote_traceback(
    error: Exception, serializer: str
) -> None:
    found = received(error, serializer)
    assert (type(found), found.args) == (type(error), error.args)
    assert "Remote traceback (tcp://h:1)" in found.__notes__[0]


def test_no_setter_runs_for_what_a_stranger_says_of_a_class_that_is_here() -> None:
    told = {"type": f"{__name__}.Guarded", "text": "x", "args": [], "state": {"limit": 3}}
    found = contents.read_raised((told, []), "tcp://h:1", "json", trusted=False, hide_traceback=True)
    assert (type(found), ran) == (RemoteError, [])


def test_the_traceback_is_left_out_where_it_is_hidden() -> None:
    assert not hasattr(received(ValueError("x"), hide=True), "__notes__")


def test_an_exception_without_a_text_is_told_all_the_same() -> None:
    assert contents.text_of(Odd()) == "<no text: RuntimeError>"
    assert contents.refusal(Odd())[1]["code"] == "RemoteProtocolError"


def test_a_class_that_this_process_lacks_is_a_remote_error_with_its_name_and_text() -> None:
    told = (
        "PSMessage",
        "raise",
        ({"type": "driver.Broken", "text": "no beam", "args": [], "state": {}}, ["line\n"]),
    )
    found: Any = contents.read_raised(told[2], "tcp://h:1", "json", False, False)
    assert isinstance(found, RemoteError)
    assert "driver.Broken" in str(found)
    assert "no beam" in str(found)


@pytest.mark.parametrize("options", [3, (1, 2, 3), ("text", ["line"]), None])
def test_a_malformed_reply_is_a_remote_error(options: object) -> None:
    assert isinstance(contents.read_raised(options, "tcp://h:1", "json", False, False), RemoteError)


def test_an_original_sends_the_exception_alone() -> None:
    error = ValueError("x")
    assert contents.read_raised(error, "tcp://h:1", "pickle", True, False) is error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("x"), "ValueError('x')"),
        (PeerLost("gone"), "ConnectionError('gone')"),
        (SystemExit(3), "RuntimeError('SystemExit: 3')"),
        (Odd(), "RuntimeError('Odd: <no text: RuntimeError>')"),
    ],
)
def test_an_original_gets_what_it_can_read(error: BaseException, expected: str) -> None:
    message = contents.read_ps_message(contents.portable(raising(error), PZC00, "json"))
    assert message is not None
    assert repr(message[1][0]) == expected


@pytest.mark.parametrize("action", ["batch", "items"])
def test_what_was_raised_behind_results_is_told_with_them(action: str) -> None:
    inside = raising(ValueError("x"))[2]
    content = contents.ps_message(action, {"results": [1], "raised": inside})
    assert isinstance(contents.is_raised(content), ValueError)
    message = contents.read_ps_message(contents.portable(content, PZC01, "json"))
    assert message is not None
    assert message[1]["results"] == [1]
    assert message[1]["raised"][0]["text"] == "x"


@pytest.mark.parametrize(
    "content", [1, ("PSMessage", "return", 1), contents.ps_message("items", {"items": [], "raised": None})]
)
def test_a_content_without_an_exception_stays_as_it_is(content: object) -> None:
    assert contents.portable(content, PZC01, "json") is content
    assert contents.is_raised(content) is None


def test_what_is_portable_already_stays_as_it_is() -> None:
    once = contents.portable(raising(ValueError("x")), PZC01, "json")
    assert contents.portable(once, PZC01, "json") == once


@pytest.mark.parametrize("error", [CallTimeout("late"), PeerLost("gone")])
def test_a_refusal_comes_back_as_its_class(error: Exception) -> None:
    found = contents.read_refusal(contents.refusal(error))
    assert (type(found), str(found)) == (type(error), str(error))


def test_a_refusal_for_a_lock_tells_who_has_it() -> None:
    found = contents.read_refusal(contents.refusal(LockedBy("alice", 5.0, "fuse")))
    assert isinstance(found, LockedBy)
    assert (found.owner, found.since, found.reason) == ("alice", 5.0, "fuse")


def test_a_code_that_is_not_known_is_a_remote_error() -> None:
    assert isinstance(contents.read_refusal(["PZCError", {"code": "OfTomorrow", "text": "x"}]), RemoteError)


@pytest.mark.parametrize("content", [None, [], ["PZCError"], ["PZCError", 1], ["else", {}]])
def test_anything_else_is_no_refusal(content: object) -> None:
    assert contents.read_refusal(content) is None


def test_what_a_peer_tells_is_taken_for_what_it_is() -> None:
    assert (contents.as_table([1]), contents.as_list({}), contents.as_text("a"), contents.as_text(3)) == (
        {},
        (),
        "a",
        "3",
    )
    assert (contents.control({"pzc": "hello"}), contents.control({"pzc": 3}), contents.control(1)) == (
        "hello",
        None,
        None,
    )
