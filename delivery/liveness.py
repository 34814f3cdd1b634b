"""Liveness: whether the other end of a link lives, and when this end has to say that it does.

::

    state      event                          next state
    alive      silence >= stalled             stalled
    stalled    heard                          alive
               silence >= lost                lost
    lost       any                            lost

Silence lasts from the last ``heard`` to now. ``lost`` is final, whoever looked first: what is heard after
so long a silence comes from an end that was taken for dead by then. A beat is due ``beat`` seconds after
this end spoke last.
"""

from __future__ import annotations

from typing import Literal

from ..protocol import limits
from ..protocol.errors import ConfigError

State = Literal["alive", "stalled", "lost"]


class Liveness:
    """Watches one link; see the table in the module's docstring.

    Times are seconds of one monotonic clock.

    Args:
        now: the link opens: both ends count as heard.
        stalled: seconds of silence after which the other end is stalled; default `Limits.stalled`, at
            most three quarters of ``lost``.
        lost: seconds of silence after which it is lost, more than ``stalled``; default `Limits.silence`.
        beat: seconds between two signs of life of this end; default `Limits.sign_of_life`, at most a quarter
            of ``lost``.

    Raises:
        ConfigError: when ``0 < beat``, ``0 < stalled < lost`` does not hold.
    """

    __slots__ = ("_beat", "_heard", "_lost", "_spoke", "_stalled")

    def __init__(
        self, now: float, stalled: float | None = None, lost: float | None = None, beat: float | None = None
    ) -> None:
        lost = limits.current.silence if lost is None else lost
        stalled = min(limits.current.stalled, 0.75 * lost) if stalled is None else stalled
        beat = min(limits.current.sign_of_life, 0.25 * lost) if beat is None else beat
        if not (0 < stalled < lost and beat > 0):
            raise ConfigError(
                f"a link cannot be stalled after {stalled} s, lost after {lost} s and beat every {beat} s: "
                "expected 0 < stalled < lost and a beat above 0"
            )
        self._stalled = stalled
        self._lost = lost
        self._beat = beat
        self._heard = now
        self._spoke = now

    def heard(self, now: float) -> None:
        """Something came from the other end."""
        if self._heard < now < self._heard + self._lost:
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
