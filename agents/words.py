"""Words: control requests (`{"pzc": word, ...}`) as the parts of an agent that answer them see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ..protocol.keyring import Role
from ..protocol.message import Message
from ..transport.exchange import UnixExchange
from .interfaces import Frames

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

    @property
    def receiver(self) -> str:
        """What the answer is addressed to under its signature."""
        ...

    @property
    def suite(self) -> int:
        """With which it was signed; the answer is, too."""
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
    """Answers requests (`Request`); any thread.

    Attributes:
        rep_endpoint: of the agent.
    """

    rep_endpoint: str

    def reply(self, request: Any, content: object) -> bool:
        """Answer with a content; False when its sender is known to be gone."""
        ...

    def send(self, request: Any, frames: Frames) -> bool:
        """Answer with frames."""
        ...

    def refuse(self, request: Any, error: Exception) -> None:
        """Tell its sender why it was not done."""
        ...
