"""What the participant of this process knows and sends."""

from __future__ import annotations

from pzc.agents import acquire, release
from pzc.discovery.events import Event, Vanished


class Watch:
    """The participant that all agents of this process share; leaving the context gives it back.

    Attributes:
        lost: entries that vanished since.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._participant = acquire()
        self._participant.listen(self._on_event)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        self._participant.unlisten(self._on_event)
        release(self._participant)

    def _on_event(self, event: Event) -> None:
        self.lost += isinstance(event, Vanished)

    @property
    def sent(self) -> int:
        """Bytes that were sent, with the headers of UDP and IP."""
        return self._participant._announcer.sent

    def seen(self, kind: str) -> int:
        """Entries of a kind that are known, the own ones too."""
        return len(self._participant.match("**", kind))

    def own(self, kind: str) -> int:
        """Entries of a kind that are this process's own."""
        return sum(each.process == self._participant.process for each in self._participant.match("**", kind))
