"""Lock: nobody else works with a served object while its holder does."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, cast

from ...protocol.errors import ConfigError, PzcError
from ...transport.inherited import Stays
from .terms import remote_of

if TYPE_CHECKING:
    from ..stub import Remote
    from .reference import RemoteReference

logger = logging.getLogger("pzc.proxy")


class Lock(Stays):
    """A lock that is held; made by `lock`. Enter it once with ``with``, and leave that, or `release` it.

    Attributes:
        owner: how the server calls the holder.
    """

    def __init__(self, proxy: RemoteReference | Remote, terms: dict[str, Any]) -> None:
        self._proxy = proxy
        self._remote = remote_of(proxy)
        self.owner = self._remote.exclusive.acquire(self._remote, terms)
        self._held, self._entered = True, False

    def release(self) -> None:
        """Give it back; without effect when it was given back already.

        Raises:
            CallTimeout, PeerLost: when the server could not be told; the lock then ends with its time
                to live.
        """
        held, self._held = self._held, False
        if held:
            self._remote.exclusive.release(self._remote)

    def __enter__(self) -> Lock:
        if self._entered:
            raise ConfigError("this lock was entered already: take another with lock(proxy)")
        self._entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self.release()
        except PzcError as exc:
            if error is None:
                raise
            error.add_note(f"besides, the lock of {self._remote.target} could not be given back: {exc}")

    def __repr__(self) -> str:
        return f"<lock of {self._remote.target}, {'held' if self._held else 'given back'}>"


def lock(
    proxy: RemoteReference | Remote,
    ttl: float = 30.0,
    *,
    wait: float = 0.0,
    reason: str = "",
    takeover: bool = False,
) -> Lock:
    """Take the lock of a served object, for a ``with`` block; it is held when this returns.

    Calls of all others, and the next items of their generators, are refused with `LockedBy` meanwhile.
    The holder is the proxy, whatever thread it is used in: within it the lock may be taken again, and is free
    when it was given back as often. A call of another thread that is on its way while the lock is taken or
    given back may be refused. A holder that dies loses it.

    Args:
        proxy: whose calls go on; other proxies of the same object are others.
        ttl: seconds after which a holder that gives no sign of life loses it; a busy one does give it.
        wait: seconds to wait until others give it back.
        reason: for those who are refused.
        takeover: take it from whoever holds it; needs an admin key.

    Raises:
        LockedBy: when somebody else has it, saying who, since when, and why.
        RoleRefused: when the key may not take over, or not lock.
        Refused: when an original Pizco is there.
        CallTimeout, PeerLost: as a call.
        ConfigError: for seconds that cannot be used.
    """
    if not (isinstance(cast(object, ttl), int | float) and ttl > 0 and math.isfinite(ttl)):
        raise ConfigError(f"ttl={ttl!r} cannot be used: expected a positive number of seconds")
    if not (isinstance(cast(object, wait), int | float) and wait >= 0 and math.isfinite(wait)):
        raise ConfigError(f"wait={wait!r} cannot be used: expected seconds, 0 for not at all")
    return Lock(proxy, {"ttl": ttl, "wait": wait, "reason": reason, "takeover": takeover})
