"""Liveness: whether the other end of a link lives, and when this end has to say that it does.

::

    state      event                          next state
    alive      silence >= stalled             stalled
    stalled    heard                          alive
               silence >= lost                lost
    lost       any                            lost
    any        this end stood still           as it was before (`standstill`)

Silence lasts from the last ``heard`` to now. ``lost`` is final, whoever looked first: what is heard after
so long a silence comes from an end that was taken for dead by then. A beat is due ``beat`` seconds after
this end spoke last. Whoever judges says so each `Limits.link_look` by `look`.
"""

from __future__ import annotations

from typing import Literal

from ..protocol import limits
from .standstill import Standstill

State = Literal["alive", "stalled", "lost"]

_STALLED = 3.0
"""Seconds of silence after which the other end of a link is stalled, unless `Limits.silence` is short."""

_SIGN_OF_LIFE = 1.0
"""Seconds between two signs of life of one end of a link, unless `Limits.silence` is short."""


class Liveness:
    """Watches one link; see the table in the module's docstring.

    Times are seconds of one monotonic clock.

    Args:
        now: the link opens: both ends count as heard. The other end is stalled after three seconds, and
            at most three quarters of `Limits.silence`, and lost after that; this end speaks each
            second, and at least each quarter of it.
    """

    __slots__ = ("_beat", "_heard", "_lost", "_spoke", "_stalled", "_standstill")

    def __init__(self, now: float) -> None:
        current = limits.current
        self._lost = current.silence
        self._stalled = min(_STALLED, 0.75 * current.silence)
        self._beat = min(_SIGN_OF_LIFE, 0.25 * current.silence)
        self._heard = self._spoke = now
        self._standstill = Standstill(current.link_look, now)

    def look(self, now: float) -> State:
        """As `state`, from whoever looks regularly; nobody was silent while this end stood still."""
        self._heard += self._standstill.look(now)
        return self.state(now)

    def heard(self, now: float) -> None:
        """Something came from the other end."""
        if now > self._heard and (now < self._heard + self._lost or self.look(now) != "lost"):
            self._heard = now

    def spoke(self, now: float) -> None:
        """This end has sent a sign of life."""
        self._spoke = max(self._spoke, now)

    def state(self, now: float) -> State:
        """``alive``, ``stalled`` or ``lost``."""
        if now >= self._heard + self._lost:
            return "lost"
        return "stalled" if now >= self._heard + self._stalled else "alive"

    def silence(self, now: float) -> float:
        """Seconds since the other end was heard, for messages to people."""
        return max(0.0, now - self._heard)

    def beat_due(self, now: float) -> bool:
        """Whether this end should send a sign of life now."""
        return now >= self._spoke + self._beat
