"""Which parts of this process are compiled: all, unless that is off, was not built, or finds no libcrypto."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..protocol.session import Plain

LIMIT = 1 << 16
"""Bytes of the largest body that a lane carries."""


class Lane(Protocol):
    """One end of a connected Unix stream socket, whose number it duplicates; ``lane.c`` says how.

    One thread may send while another receives. Timeouts are in seconds, for ever when negative, and with 0
    nothing is waited for.

    ===============================  ==========================================================
    raises                           when
    ===============================  ==========================================================
    `LaneError` of "late"            no message came in time
    "unsent"                         nothing went out in time
    "broken"                         the peer did not get the messages whole
    "gone"                           the peer hung up; all that came before was handed out
    "closed", "forked"               closed here, or forked since
    "descriptor"                     one came with a message that has none; it is over
    RuntimeError                     another thread sends, or receives, at the same time
    what the handler raised          a signal came; a message that was being taken is lost
    ===============================  ==========================================================

    Attributes:
        at, have: the same number when nothing is left that was received, and not taken or handed over.
        last: counter of the last request; later ones must be above it.
        spin: microseconds to look for a message, giving way to others, before sleeping.
        msgid: id of the request that `ask` made last; empty when it made none.
    """

    at: int
    have: int
    last: int
    spin: int
    msgid: str

    def ask(self, body: bytes | None, timeout: float, look: float, /) -> Plain | None:
        """Send a request and wait for its reply, which is returned verified.

        Args:
            body: of the request; None waits on for a reply to the one before.
            timeout: for sending it.
            look: for the reply.

        Returns:
            None in front of a message that is not for a lane: `unread` gives it.
        """
        ...

    def post(
        self, messages: Sequence[bytes | tuple[bytes, str]], timeout: float, /
    ) -> tuple[list[str], bytes]:
        """Send bodies of requests, or replies as body and message id, in few writes.

        Returns:
            Their ids, and the bytes that the kernel did not take when nothing was to be waited for: the
            caller has to write them before anything else, or to end the connection. Messages that need
            more than one write of 128 KiB are not for that.
        """
        ...

    def take(self, timeout: float, limit: int = 64, /) -> list[Plain] | None:
        """Messages that are there, one at least: verified body, id, and the sender's ms and counter.

        Returns:
            None in front of a message that is not for a lane: `unread` gives it.
        """
        ...

    def unread(self) -> tuple[bytes, list[int]]:
        """What was received and not verified, and the descriptors that came: the caller's from now on."""
        ...

    def feed(self, data: bytes, /) -> None:
        """Take back what the caller of `unread` received too far."""
        ...

    def close(self) -> None:
        """End the connection, from any thread."""
        ...


NewLane = Callable[..., Lane]
"""Makes a lane.

Args:
    fd: number of the socket.
    asks: this end sends requests and receives replies.
    key: 32 bytes for HMAC-SHA256; empty: nothing is signed.
    key_id: that of the key, 8 hex digits; empty without one.
    serializer: name in frame 1 of all that is for a lane.
    own, peer: header of that end's messages (of a request all, of a reply what stands before its own id),
        what messages to it are addressed to, and its epoch.
    count: gives the next counter of this end's epoch.
    last: counter of the last request, default -1.

Raises:
    ValueError: for a key, a name or an address that a lane cannot have.
"""


def _choose() -> tuple[Any, str]:
    """A compiled module, or None; and what is to be said about that."""
    if os.environ.get("PZC_COMPILED", "1").lower() in ("0", "false", "no", "off"):
        return None, "plain Python: PZC_COMPILED turned the compiled lane off"
    try:
        module: Any = importlib.import_module(f"{__package__}._lane")
    except ImportError as exc:
        built = "cannot be loaded" if exc.path else "was not built when pzc was installed"
        return None, f"plain Python: the compiled lane {built}"
    if not module.CRYPTO:
        return None, "plain Python: the compiled lane found no libcrypto"
    return module, f"compiled, with {module.CRYPTO}"


_lane, WHICH = _choose()

LANE: NewLane | None = _lane and _lane.Lane
"""What makes compiled lanes, or None; `WHICH` is what `pzc version` says about that."""


class _Never(Exception):
    """Of a lane that is not there."""


LaneError: type[Exception] = _lane.LaneError if _lane else _Never
"""What ends an operation of a lane, in one word; what a signal's handler raises is never one."""
