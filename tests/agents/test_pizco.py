from __future__ import annotations

from pzc.agents.compat.pizco import readable
from pzc.protocol import errors

from tests.contract.rigs.failing import HeavyError, HostileError, OddError


class MuteError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("mute")


def test_an_original_peer_gets_a_builtin_exception_for_ours() -> None:
    for cls in (errors.RoleRefused, errors.PeerLost, errors.CallTimeout, errors.MemberRefused):
        found = readable(cls("no"), "pickle")
        assert (type(found).__module__, str(found)) == ("builtins", "no")
        assert issubclass(cls, type(found))


def test_an_original_peer_gets_what_it_can_rebuild_and_survive() -> None:
    for error in (SystemExit(1), KeyboardInterrupt(), OddError(1, 2), HeavyError("h"), HostileError("x")):
        found = readable(error, "pickle")
        assert type(found) is RuntimeError
        assert type(error).__name__ in str(found)
    mute = MuteError()
    assert readable(mute, "pickle") is mute
