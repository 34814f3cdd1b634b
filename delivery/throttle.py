"""Throttle: at most so many messages of a topic in a second.

State: the time of the last admitted message, or None before the first::

    now                              admitted      next last
    any, before the first            yes           now
    last + period or later           yes           now
    last to last + period            no            last
    before last (the clock stepped)  no            now

The first message after a period of silence is admitted at once. Two admitted ones lie at least a period
apart, so a burst is thinned and not only averaged. A clock that is set back costs one period at most.
"""

from __future__ import annotations

from numbers import Real

from ..protocol.errors import ConfigError


class Throttle:
    """Admits messages at a limited rate; see the table in the module's docstring.

    Args:
        rate_hz: most messages in a second, above 0.

    Raises:
        ConfigError: for another rate.
    """

    __slots__ = ("_last", "_period")

    def __init__(self, rate_hz: float) -> None:
        if not isinstance(rate_hz, Real) or not float(rate_hz) > 0:
            raise ConfigError(
                f"throttle={rate_hz!r:.60} cannot be used: expected more than 0 messages per second"
            )
        self._period = 1.0 / rate_hz
        self._last: float | None = None

    def admit(self, now: float) -> bool:
        """Whether a message may pass at ``now``, in seconds of any clock; counts it when it may."""
        last = self._last
        if last is None or now >= last + self._period:
            self._last = now
            return True
        if now < last:
            self._last = now
        return False
