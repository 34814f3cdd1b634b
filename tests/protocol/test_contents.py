"""Contents with a meaning of their own: refusals, and exceptions on their way."""

from __future__ import annotations

import pytest

from pzc import PzcError, RemoteError
from pzc.protocol import errors
from pzc.protocol.contents import (
    portable,
    raised,
    read_ps_message,
    read_raised,
    read_refusal,
    refusal,
)

from tests.contract.rigs.failing import RangeError

MALFORMED = [
    None, 7, "text", (), (1,), (1, 2, 3), ({}, 7), ({"type": 1}, []), ({"type": "x", "text": "y"}, []), (7, []),
]  # fmt: skip


@pytest.mark.parametrize("options", MALFORMED)
def test_a_malformed_raise_reply_is_a_remote_error(options: object) -> None:
    assert isinstance(read_raised(options, "tcp://x:1", hide_traceback=False), RemoteError)


def test_every_error_of_ours_survives_a_refusal() -> None:
    ours = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, PzcError)}
    for cls in ours - {RemoteError, errors.LockedBy}:
        found = read_refusal(refusal(cls("what happened")))
        assert (type(found), str(found)) == (cls, "what happened")


def test_who_holds_a_lock_since_when_and_why_survives_a_refusal() -> None:
    found = read_refusal(refusal(errors.LockedBy("alice (agent 3f2a90c1)", 1_700_000_000.5, "calibrating")))
    assert isinstance(found, errors.LockedBy)
    assert (found.owner, found.since, found.reason) == (
        "alice (agent 3f2a90c1)", 1_700_000_000.5, "calibrating"
    )  # fmt: skip


@pytest.mark.parametrize(
    "locked", [7, [], ["x"], ["x", "late", ""], ["x", 1e300, ""], ["x", float("nan"), ""], ["x", [], ""], {}]
)
def test_a_refusal_that_does_not_say_who_holds_the_lock_is_one_all_the_same(locked: object) -> None:
    found = read_refusal(["PZCError", {"code": "LockedBy", "text": "locked", "locked": locked}])
    assert isinstance(found, errors.LockedBy)
    assert (found.owner, found.since, found.reason) == ("somebody", 0.0, "locked")


@pytest.mark.parametrize("code", ["Refused", "LockedBy", "Unknown\x1b[2J"])
def test_the_text_of_a_refusal_steers_no_terminal(code: str) -> None:
    text = "two\nlines\x1b[2J"
    found = read_refusal(["PZCError", {"code": code, "text": text, "locked": [text, 1.0, text]}])
    assert "two\nlines\\x1b[2J" in str(found)
    assert "\x1b" not in str(found)


def test_other_content_is_no_refusal_and_an_unknown_code_is_a_remote_error() -> None:
    for content in (None, [], ["PZCError"], ["PZCError", 7], ["x", {}], {"PZCError": 1}, "PZCError"):
        assert read_refusal(content) is None
    found = read_refusal(["PZCError", {"code": "os.system", "text": "t"}])
    assert isinstance(found, RemoteError)
    assert found.type_name == "os.system"


def test_portable_leaves_other_messages_alone() -> None:
    for content in (7, ("PSMessage", "return", ValueError()), "PSMessage"):
        assert portable(content) is content


def test_a_portable_exception_is_readable_without_its_class() -> None:
    message = read_ps_message(portable(raised(RangeError("r"))))
    assert message is not None
    assert message[1][0]["type"] == f"{RangeError.__module__}.RangeError"
    assert message[1][0]["text"] == "r"
