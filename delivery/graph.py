"""TopicGraph: which topic's messages flow into which other topic; never in a circle.

::

    a -> b          event              next
    not connected   connect(a, b)      connected, or CycleRefused when a is b or b leads to a
                    disconnect(a, b)   UnknownName
    connected       connect(a, b)      connected
                    disconnect(a, b)   not connected

A topic is known while it is connected to another one.
"""

from __future__ import annotations

from ..protocol.errors import CycleRefused, Refused, UnknownName

MAX_CONNECTIONS = 10_000


class TopicGraph:
    """Directed graph of topic names without a cycle; see the table in the module's docstring.

    Args:
        max_connections: most connections at a time.
    """

    def __init__(self, max_connections: int = MAX_CONNECTIONS) -> None:
        self.max_connections = max_connections
        self._count = 0
        self._down: dict[str, dict[str, None]] = {}
        self._up: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        """The number of connections."""
        return self._count

    def connect(self, source: str, target: str) -> None:
        """Let the messages of ``source`` flow into ``target`` as well.

        Raises:
            CycleRefused: when ``source`` is ``target``, or ``target`` leads to ``source``.
            Refused: when there are ``max_connections``.
        """
        if target in self._down.get(source, ()):
            return
        if source == target or source in self.reachable(target):
            raise CycleRefused(
                f"topic {source!r} cannot be connected to {target!r}, which leads to it already: "
                "its messages would come back; disconnect that way first"
            )
        if self._count >= self.max_connections:
            raise Refused(
                f"topic {source!r} cannot be connected to {target!r}: there are {self._count} connections "
                "already; disconnect some"
            )
        self._down.setdefault(source, {})[target] = None
        self._up.setdefault(target, {})[source] = None
        self._count += 1

    def disconnect(self, source: str, target: str) -> None:
        """End a connection; both topics and their other connections stay.

        Raises:
            UnknownName: when ``source`` is not connected to ``target``.
        """
        if target not in self._down.get(source, ()):
            raise UnknownName(
                f"topic {source!r} is not connected to {target!r}; topic_connections() lists what is"
            )
        _remove(self._down, source, target)
        _remove(self._up, target, source)
        self._count -= 1

    def connections(self) -> list[tuple[str, str]]:
        """Every connection as (source, target)."""
        return [(source, target) for source, targets in self._down.items() for target in targets]

    def upstream(self, topic: str) -> frozenset[str]:
        """The other topics whose messages flow into this one, directly or through others."""
        return _closure(self._up, topic)

    def reachable(self, topic: str) -> frozenset[str]:
        """The other topics that messages of this one flow into, directly or through others."""
        return _closure(self._down, topic)


def _remove(neighbours: dict[str, dict[str, None]], topic: str, other: str) -> None:
    del neighbours[topic][other]
    if not neighbours[topic]:
        del neighbours[topic]


def _closure(neighbours: dict[str, dict[str, None]], start: str) -> frozenset[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = [topic for topic in neighbours.get(waiting.pop(), ()) if topic not in found]
        found.update(new)
        waiting += new
    return frozenset(found)
