"""Interfaces: what client, server, notifications and naming know of one another.

The four folders import nothing of each other. An agent makes one part of each and hands it to the others as
what stands here; plain data (`Peer`, `Reply`, `Notification`, `Place`, contents) stands below, in `protocol`
and `discovery`.

==========  ==========================  ==============================================================
interface   made by                     used by
==========  ==========================  ==============================================================
Client      `agents/client`             links, mailboxes and subscriptions; the registry's clients
Resolver    `agents/naming`             whoever is given a name; subscriptions that follow one
Publisher   `agents/notifications`      a server: signals, events of its calls, confirmed filters
Subscriber  `agents/notifications`      proxies: slots, signals; the topic graph
Request     `agents/server`             control words: links, mailboxes, topics, the registry
==========  ==========================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, TypeVar

from ..delivery.policies import Policy
from ..discovery.records import Entry, Place
from ..protocol.errors import PzcError
from ..protocol.frames import Buffer
from ..protocol.keyring import Role
from ..protocol.message import Message
from ..protocol.notification import Callback, Notification
from ..protocol.peer import Peer
from ..protocol.reply import Reply
from ..transport import wire
from ..transport.counters import Counters
from ..transport.exchange import UnixExchange
from ..transport.executor import Executor
from ..transport.loop import Loop

Frames = list[Buffer]

# --- asking ----------------------------------------------------------------------------------------------


class Client(Protocol):
    """Asks other agents; safe from any thread, but nothing that waits belongs into the I/O thread.

    Errors of what waits: CallTimeout, PeerLost, SignatureError, SerializeError, AgentClosed, and whatever
    the peer refused with.
    """

    def peer(self, endpoint: str, deadline: float) -> Peer:
        """Who is at an endpoint, after a handshake where it was not met; monotonic seconds."""
        ...

    def request(self, endpoint: str, content: object, timeout: float) -> Reply:
        """Ask and wait."""
        ...

    def submit_to(self, peer: Peer, content: object, timeout: float) -> Future[Reply]:
        """Ask without waiting; callbacks of the future run in the I/O thread and must be quick."""
        ...

    def send_to(self, peer: Peer, content: object, timeout: float) -> Future[None]:
        """Say something that nobody answers, without waiting, behind what was given to `submit_to`."""
        ...

    def learn(self, peer: Peer) -> None:
        """Take a peer as met."""
        ...

    def forget(self, endpoint: str) -> None:
        """Shake hands again before the next request to an endpoint."""
        ...

    def dedicate(self, peer: Peer, deadline: float, serializer: str) -> UnixExchange:
        """A Unix connection of its own to a peer, whose small messages are mostly in that serializer."""
        ...

    def hang_up(self) -> None:
        """End every wait with AgentClosed, at once."""
        ...

    def close(self) -> None:
        """`hang_up`, and give back everything; not in the I/O thread."""
        ...


NewClient = Callable[[Loop, wire.Protocol, str, Counters], Client]
"""Makes a client with an agent id of its own, for what outlives the agents that it serves."""


# --- names -----------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """Where somebody is, who that is, and the seconds that are left of those given."""

    place: Place
    peer: Peer
    left: float


class Finder(Protocol):
    """Finds agents by endpoint or name, and asks them; an agent's own client."""

    def find(self, target: str, timeout: float) -> Found:
        """Where somebody is, once it answers there; errors as `Client`, and UnknownName."""
        ...

    def peer(self, target: str, timeout: float = 30.0) -> Peer:
        """Who is there; errors as `find`."""
        ...


LOOK_FOR = 3.0
"""Seconds that a name is waited for which nobody answers to."""


class Follower(Protocol):
    """One user of a name that may move.

    Attributes:
        entry: what the agent that is used told of itself.
    """

    entry: Entry

    def close(self) -> None:
        """Stay where it is from now on; never waits."""
        ...


class Resolver(Protocol):
    """Finds agents by their names."""

    def resolve(self, target: str, timeout: float) -> Place:
        """Where the agent of a name is; UnknownName when nobody has it."""
        ...

    def follow(self, target: str, place: Place, move: Callable[[str, str], object]) -> Follower | None:
        """Call ``move(before, endpoint)`` whenever the agent of a name is elsewhere; None: it stays."""
        ...

    def hears(self) -> bool:
        """Whether a name that was looked for is heard of once somebody has it."""
        ...


# --- notifications ---------------------------------------------------------------------------------------


class Publisher(Protocol):
    """Publishes what a server has to tell."""

    def publish(self, topic: str, content: object, *, dialects: tuple[str, ...] | None = None) -> int:
        """Number and send one notification; gives its number. ``dialects``: in these, whoever listens."""
        ...

    def on_asked(self, callback: Callable[[str], object]) -> None:
        """Have a function called with each topic that a subscription names, before that is acted upon."""
        ...

    def is_wanted(self, topic: str) -> bool:
        """True when somebody listens."""
        ...

    def check_broadcast(self, topic: str) -> None:
        """PolicyRefused for a topic that does not go so far."""
        ...

    def has_mark(self, mark: str) -> bool:
        """True once a subscriber's mark, and so every filter it set before, has arrived."""
        ...

    def last_at(self, mark: str) -> int | dict[str, int]:
        """The last number before a mark came; for ``*`` that of each topic."""
        ...

    def types_of(self, topic: str) -> dict[str, str]:
        """What is said of a topic, or for ``*`` of all, by topic."""
        ...


class Subscription(Protocol):
    """What was subscribed to, until it is closed."""

    on_lost: Callable[[str], object] | None

    @property
    def closed(self) -> bool:
        """True when nothing comes any more."""
        ...

    def recv(self, timeout: float | None = None) -> Notification:
        """The next notification, of those without a callback."""
        ...

    def __next__(self) -> Notification:
        """The same; StopIteration at its end."""
        ...

    async def __anext__(self) -> Notification:
        """The same, awaited."""
        ...

    def close(self) -> None:
        """End it; no callback begins after that."""
        ...


class Coroutines(Protocol):
    """An event loop in a thread of its own."""

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> object:
        """Await a coroutine whose result nobody needs; PeerLost when it was closed."""
        ...

    def close(self) -> None:
        """Cancel what runs; nothing more begins."""
        ...


class Sources(Protocol):
    """A subscription to a topic of many publishers, which come and go.

    Attributes:
        topic: of all of them.
        patience: seconds for which a source stays whose publisher is gone.
    """

    topic: str
    patience: float

    @property
    def sources(self) -> list[str]:
        """Who is subscribed to now."""
        ...

    def add(self, source: str) -> None:
        """Subscribe to one more; errors as `Agent.subscribe`, SubscriptionClosed after its end."""
        ...

    def remove(self, source: str) -> None:
        """Subscribe to one less; an unknown one changes nothing."""
        ...

    def refuse(self, error: PzcError) -> None:
        """End, because the only one that it is for has refused it."""
        ...


class Watching(Protocol):
    """Keeps sources equal to the names that are there."""

    def begin(self, sources: Any, timeout: float) -> None:
        """Add those that are there (`Sources`), and from now on those that come."""
        ...

    def close(self) -> None:
        """Watch no more; never waits."""
        ...


class Subscriber(Protocol):
    """Subscribes to the topics of other agents."""

    def subscribe(
        self,
        publisher: str,
        topic: str,
        callback: Callback | None = None,
        *,
        policy: Policy | None = None,
        timeout: float = 5.0,
        executor: Executor | None = None,
    ) -> Subscription:
        """Returns when the publisher has confirmed; arguments and errors as `Agent.subscribe`."""
        ...

    def come_along(self, subscription: Any, name: str, place: Place) -> None:
        """Have a subscription follow the agent of a name, which is at that place now."""
        ...


# --- answering -------------------------------------------------------------------------------------------

T = TypeVar("T")


class Connection(Protocol):
    """A connection of this host over which a request came.

    Attributes:
        pid: of the process at its other end.
    """

    pid: int

    @property
    def is_link(self) -> bool:
        """It carries a link, and no calls."""
        ...

    def go_on(self) -> None:
        """Receive while calls run, from now on, and answer in any order."""
        ...

    def become_link(self, make: Callable[[UnixExchange], T], on_end: Callable[[], object]) -> T:
        """Have everything written by what ``make`` makes of the exchange; ``on_end`` is called at its end."""
        ...


class Request(Protocol):
    """One verified request, as the control words of notifications and naming see it.

    Attributes:
        message: who sent it, with which key, in which dialect and serializer.
        oneway: its sender wants no answer.
    """

    message: Message
    oneway: bool

    @property
    def role(self) -> Role | None:
        """Of the key that signed it; None without keys."""
        ...

    @property
    def connection(self) -> Connection | None:
        """That of this host which it came over; None when it came another way."""
        ...

    def seal(self, content: object, serializer: str) -> Frames:
        """Five frames of an answer, signed with the key of whoever asked."""
        ...

    def transmit(self, frames: Frames) -> bool:
        """Send frames back; False when there is no way any more. Any thread."""
        ...


Word = Callable[[Request, Any], object]
"""Answers a control word: gets the request and its content. Errors are told to whoever asked."""


class Replies(Protocol):
    """Sends the answers to requests (`Request`); any thread.

    Attributes:
        rep_endpoint: of the agent.
    """

    rep_endpoint: str

    def send(self, request: Any, frames: Frames) -> bool:
        """Answer with frames."""
        ...
