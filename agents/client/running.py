"""What runs at a server, and how to call it off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.contents import as_list, as_table
from ...protocol.errors import RemoteProtocolError
from ...protocol.shown import printable, shown
from .terms import remote_of

if TYPE_CHECKING:
    from ..stub import Remote
    from .reference import RemoteReference


class Running(NamedTuple):
    """One call that a server has begun or that waits there.

    Attributes:
        member: path of what was called: ``ramp``, ``ch1.off``.
        caller: name of the key that signed it; empty without one.
        since: seconds since it came.
        state: ``running`` or ``waiting``.
        agent: id of the agent that made it.
        id: of the call.
        cancelled: it was told to end, and has not yet.
    """

    member: str
    caller: str
    since: float
    state: str = "running"
    agent: str = ""
    id: str = ""
    cancelled: bool = False


def running(proxy: RemoteReference | Remote, *, timeout: float | None = None) -> list[Running]:
    """What runs and waits at a server now, whoever asked for it.

    Args:
        proxy: of the server, or anything reached through it.
        timeout: in seconds; default the proxy's.

    Raises:
        ConfigError: for anything but a proxy.
        CallTimeout, PeerLost, Refused: as a call; never because a call takes long.
    """
    told = _asked(proxy, {"pzc": "running"}, timeout).get("running")
    listed = as_list(told)
    if not isinstance(told, list | tuple):
        raise RemoteProtocolError(f"{proxy!r} did not tell what runs: {shown(told, 100)}")
    return [_read(each) for each in map(as_table, listed) if each]


def _read(told: dict[str, Any]) -> Running:
    since = told.get("since")
    texts = {
        name: printable(str(told.get(name, ""))) for name in ("member", "caller", "state", "agent", "id")
    }
    return Running(
        since=float(since) if isinstance(since, int | float) else 0.0,
        cancelled=told.get("cancelled") is True,
        **texts,
    )


def cancel(
    proxy: RemoteReference | Remote,
    everybody: bool = False,
    *,
    call: Running | str = "",
    timeout: float | None = None,
) -> int:
    """Call off what this process has asked a server for: what waits never runs, what runs is told so.

    Args:
        proxy: of the server, or anything reached through it.
        everybody: the calls of all others as well; needs an admin key.
        call: only this one, as `running` tells it, or its id; of another key it needs an admin key.
        timeout: in seconds; default the proxy's.

    Returns:
        How many calls there were.

    Raises:
        ConfigError: for anything but a proxy.
        RoleRefused: for the calls of others without an admin key.
        CallTimeout, PeerLost: as a call.
    """
    if call:
        told = _asked(proxy, {"pzc": "cancel", "id": call if isinstance(call, str) else call.id}, timeout)
        return int(told.get("state") in ("removed", "told"))
    return _counted(_asked(proxy, {"pzc": "cancel", "everybody" if everybody else "mine": True}, timeout))


def cancel_of_key(proxy: RemoteReference | Remote) -> int:
    """As `cancel`, of all that was asked for with the key of this process, by whichever process."""
    return _counted(_asked(proxy, {"pzc": "cancel", "key": True}, None))


def _counted(told: dict[str, Any]) -> int:
    return sum(count for count in (told.get("removed"), told.get("told")) if isinstance(count, int))


def _asked(proxy: object, word: dict[str, Any], timeout: float | None) -> dict[str, Any]:
    remote = remote_of(proxy)
    remote.need("tell what runs there")
    return as_table(remote.ask(word, timeout).content)
