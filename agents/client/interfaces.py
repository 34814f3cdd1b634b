"""Interfaces: what files of the client know of one another, where one makes what another one uses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from ...protocol.peer import Peer
from ...protocol.reply import Reply
from .heartbeat import Heartbeat


class Owner(Protocol):
    """The client that a pending call is of."""

    @property
    def heartbeat(self) -> Heartbeat:
        """Tells servers that whoever holds something there is alive."""
        ...

    def submit_to(self, peer: Peer, content: object, timeout: float) -> Future[Reply]:
        """Ask without waiting."""
        ...

    def call_back(self, function: Callable[[Future[Any]], object], future: Future[Any]) -> None:
        """Call a user's function, in a thread that may wait."""
        ...

    def cancel(self, entry: Any) -> None:
        """Call a pending call off."""
        ...

    def wait_for_id(self, entry: Any) -> None:
        """Wait at most a moment until a pending call has an id, or is over."""
        ...


class Served(Protocol):
    """A served object as one proxy has it: `ServedObject`.

    Attributes:
        endpoint: where its server is now.
        peer: who was met there last.
        timeout: of a call that has none of its own, in seconds.
        lock_token: what every request carries while the lock is held.
        lock_used: True from the first `lock` on.
        anchor: what keeps the proxy open as long as it lives.
    """

    endpoint: str
    peer: Peer
    timeout: float
    lock_token: str | None
    lock_used: bool
    anchor: Callable[[], object] | None

    @property
    def client(self) -> Owner:
        """That asks."""
        ...

    def need(self, what: str) -> Peer:
        """The peer; Refused for an original Pizco, which cannot do that."""
        ...

    def ask(self, content: dict[str, Any], timeout: float | None = None) -> Reply:
        """Ask a control word."""
        ...

    def tell(self, content: dict[str, Any], peer: Peer | None = None) -> None:
        """Say a control word that nobody waits for."""
        ...

    def request(self, action: str, options: dict[str, Any], timeout: float | None = None) -> Any:
        """One call."""
        ...

    def request_later(self, action: str, options: dict[str, Any], timeout: float | None = None) -> Any:
        """One call that is not waited for."""
        ...
