"""Heartbeat: a publisher tells on the broadcast plane how far each topic is, so that no loss stays unseen.

A PZC01 notification with number 0 on the reserved topic `BEAT_TOPIC`, whose content is a
`protocol.link_messages.Lasts`. `topic_beat` seconds after a message it tells the topic's
last number, and again after growing pauses (`delivery.tails`), in case the beat is lost as well. It goes the
way of the messages, behind them: what a subscriber has not got when it comes is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...delivery.tails import Tails
from ...protocol import limits
from ...protocol.errors import DecodeError
from ...protocol.frames import PZC01, Buffer, topic_filter
from ...protocol.link_messages import Last, Lasts
from ...transport.loop import Loop, Timer
from ...transport.wire import Protocol
from .filters import ANY

_TOPIC_BEAT_TOPICS = 500
"""Topics in one of these messages."""


BEAT_TOPIC = "__lasts__"
"""Topic of the beats; nobody publishes there, or subscribes to it."""


def beat_filter(agent_id: str) -> bytes:
    """The filter of a publisher's beats."""
    return topic_filter(PZC01, agent_id, BEAT_TOPIC)


def lasts_of(content: object) -> list[Last]:
    """What a beat tells.

    Raises:
        DecodeError: when that is no beat.
    """
    if not isinstance(content, Lasts):
        raise DecodeError(f"last numbers were expected on {BEAT_TOPIC}, not {type(content).__name__}")
    return content.lasts


class Heartbeat:
    """The beats of one publisher; I/O thread. Without a message there is no timer.

    Args:
        loop: keeps the time.
        protocol: encodes and signs.
        agent_id: of the publisher.
        wanted: True when somebody listens to the beats.
        send: takes the frames of a beat.
    """

    def __init__(
        self,
        loop: Loop,
        protocol: Protocol,
        agent_id: str,
        wanted: Callable[[], bool],
        send: Callable[[list[Buffer]], None],
    ) -> None:
        self._loop = loop
        self._protocol = protocol
        self._agent_id = agent_id
        self._wanted = wanted
        self._send = send
        self._tails = Tails()
        self._timer: Timer | None = None
        self._withdrawn: dict[str, int] = {}  # with their last numbers
        self._all: Mapping[str, int] = {}  # of everything, when somebody asked since the last beat
        self._closed = False

    def withdraw(self, topic: str, number: int) -> None:
        """A topic is not offered any more, which is told as often as its last number."""
        self._withdrawn[topic] = number
        self._tails.sent(topic, number)
        self._arm()

    def sent(self, topic: str, number: int) -> None:
        """A message is on its way."""
        self._tails.sent(topic, number)
        if self._withdrawn.get(topic, number) < number:  # else it waited while its topic was withdrawn
            del self._withdrawn[topic]
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_later(limits.current.topic_beat, self._beat)

    def again(self, topic: str, lasts: Mapping[str, int]) -> None:
        """Somebody listens to a topic, or to ``*``, perhaps after a time without connection.

        What it missed then was not sent to anybody, so that no message and no beat would ever tell it.

        Args:
            topic: empty for nobody.
            lasts: last number of each topic.
        """
        if topic == ANY:  # looked through at the next beat: anybody may ask, without a key, and again at once
            self._all = lasts
            self._arm()
        elif number := lasts.get(topic, 0):
            self._tails.sent(topic, number)
            self._arm()

    def close(self) -> None:
        """Tell for the last time."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._count()
        self._tell(self._tails.end())

    def _beat(self) -> None:
        self._timer = None
        self._count()
        told = self._tails.beat()
        if len(self._tails):
            self._arm()
        self._tell(told)
        for topic in [*self._withdrawn]:
            if topic not in self._tails:
                del self._withdrawn[topic]

    def _count(self) -> None:
        lasts, self._all = self._all, {}
        for topic, number in dict(lasts).items():
            self._tails.sent(topic, number)

    def _tell(self, told: dict[str, int]) -> None:
        if not told or not self._wanted():
            return
        lasts = [Last(topic, number, topic in self._withdrawn) for topic, number in told.items()]
        for first in range(0, len(lasts), _TOPIC_BEAT_TOPICS):
            some = Lasts(lasts[first : first + _TOPIC_BEAT_TOPICS])
            self._send(
                self._protocol.encode(self._agent_id, BEAT_TOPIC, some, dialect=PZC01, serializer="link")
            )
