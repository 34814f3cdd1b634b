"""Interfaces: what files of the client know of one another, where one makes what another one uses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from ...discovery.records import Place
from ...protocol.peer import Peer
from ...protocol.reply import Reply
from ..naming.follower import Follower
from .abort import AbortSignal
from .heartbeat import Heartbeat


class Owner(Protocol):
    """The client that a pending call is of.

    Attributes:
        unusable: why nothing can be asked any more; empty as long as it can.
    """

    unusable: str

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
    """A served object as one proxy has it, of which calls are made: `ServedObject`.

    Attributes:
        endpoint: where its server is now.
        peer: who was met there last.
        server: id of the agent that the endpoint was last known to belong to.
        timeout: of a call that has none of its own, in seconds.
        transport: of a call that has none of its own.
        abort: ends the waits for its calls.
        anchor: what keeps the proxy open as long as it lives.
        follower: by which it follows a server that has a name; None for one that has not.
    """

    endpoint: str
    peer: Peer
    server: str
    timeout: float
    transport: str
    abort: AbortSignal
    anchor: Callable[[], object] | None
    follower: Follower | None

    @property
    def client(self) -> Owner:
        """That asks."""
        ...

    def need(self, what: str) -> Peer:
        """The peer; Refused for an original Pizco, which cannot do that."""
        ...

    def here(self, left: float) -> Place:
        """Where it is now; a server with a name may move."""
        ...

    def ask(self, content: dict[str, Any], timeout: float | None = None) -> Reply:
        """Ask a control word."""
        ...

    def tell(self, content: dict[str, Any], peer: Peer | None = None) -> None:
        """Say a control word that nobody waits for."""
        ...

    def request(self, action: str, options: dict[str, Any], terms: Any = ...) -> Any:
        """One call; see `ServedObject`."""
        ...

    def request_later(self, action: str, options: dict[str, Any], terms: Any = ...) -> Future[Any]:
        """One call that is not waited for."""
        ...

    def notice(self, reply: Reply) -> None:
        """Another agent than `server` has answered."""
        ...

    def arrived(self, value: Any) -> Any:
        """What the user gets for a value that was returned."""
        ...

    def stop_of(self, options: dict[str, Any]) -> object:
        """What its server calls when such a call was cancelled; None where that is not known."""
        ...

    def read(self, reply: Reply, timeout: float | None) -> Any:
        """What the user gets for any other reply, or raises."""
        ...

    def await_original(self, call_id: str, future: Any) -> None:
        """Finish the future when an original Pizco tells the result of a call."""
        ...
