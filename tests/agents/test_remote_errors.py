from __future__ import annotations

import builtins
import traceback

import pytest

from pzc import Proxy, PzcError, RemoteError
from pzc.protocol import errors
from pzc.protocol.contents import (
    as_original,
    portable,
    raised,
    read_ps_message,
    read_raised,
    read_refusal,
    refusal,
)

from tests.contract.rigs import failing
from tests.contract.rigs.failing import Faulty, HeavyError, HostileError, OddError, RangeError, failure_of

faulty = failing.faulty


class MuteError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("mute")


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


def test_an_exception_that_cannot_say_what_it_is_arrives_all_the_same(faulty: tuple[Faulty, Proxy]) -> None:
    found = failure_of(*faulty, MuteError())
    assert type(found) is MuteError


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
    assert message[1][0]["type"] == f"{RangeError.__module__}.RangeError"
    assert builtins.type(message[1][0]["encoded"]) is bytes
