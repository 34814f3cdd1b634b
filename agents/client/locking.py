"""Lock: nobody else works with a served object while its holder does."""

from __future__ import annotations

import logging
import math
import threading
from typing import TYPE_CHECKING, Any, cast

from ...protocol.errors import ConfigError, PzcError
from ...transport.inherited import Stays
from .terms import remote_of

if TYPE_CHECKING:
    from ..stubs import Remote
    from .reference import RemoteReference

logger = logging.getLogger("pzc.proxy")


class Lock(Stays):
    """A lock that is held; made by `lock`. Leave its ``with`` block, or `release` it.

    Entered again before it was left, by whatever thread, it is held until it was left as often.

    Attributes:
        owner: how the server calls the holder.
    """

    def __init__(self, proxy: RemoteReference | Remote, terms: dict[str, Any]) -> None:
        self._proxy = proxy
        self._remote = remote_of(proxy)
        self._terms = terms
        self.owner = ""
        self._held = self._entered = 0  # how often
        self._counting = threading.Lock()
        self._acquire()

    def _acquire(self) -> None:
        self.owner = self._remote.exclusive.acquire(self._remote, self._terms)
        with self._counting:
            self._held += 1

    def release(self) -> None:
        """Give it back; without effect when it was given back already.

        Raises:
            CallTimeout, PeerLost: when the server could not be told; the lock then ends with its time
                to live.
        """
        self._give_back(0)

    def _give_back(self, left: int) -> None:
        with self._counting:
            self._entered = max(0, self._entered - left)
            back = self._held > self._entered * left  # a block that was left leaves it to those around it
            self._held -= back
        if back:
            self._remote.exclusive.release(self._remote)

    def __enter__(self) -> Lock:
        with self._counting:
            self._entered += 1
            again = self._entered > self._held
        if again:
            try:
                self._acquire()
            except BaseException:
                with self._counting:
                    self._entered -= 1
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self._give_back(1)
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
    Within the proxy it may be taken again; it is free when it was given back as often. A holder that dies
    loses it.

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
