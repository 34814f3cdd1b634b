"""The compiled lane; `lane.c` says how."""

from collections.abc import Sequence
from typing import Any

from ..protocol.session import Plain

CRYPTO: str

class LaneError(Exception):
    """What ended an operation, in one word.

    ============  ===============================================================
    late          no message came in time
    unsent        nothing went out in time
    broken        the peer did not get the messages whole
    gone          the peer hung up; all that came before was handed out
    closed        closed here
    forked        forked since
    descriptor    one came with a message that has none; it is over
    ============  ===============================================================
    """

class Lane:
    """One end of a connected Unix stream socket, whose number it duplicates.

    One thread may send while another receives; RuntimeError when another one does the same. Timeouts are in
    seconds, for ever when negative, and with 0 nothing is waited for. What a signal's handler raises comes
    through; a message that was being taken is lost then.

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

    # terms:
    #     key: 32 bytes for HMAC-SHA256; empty: nothing is signed.
    #     key_id: that of the key, 8 hex digits; empty without one.
    #     serializer: name in frame 1 of all that is for a lane.
    #     own, peer: header of that end's messages (of a request all, of a reply what stands before its own
    #         id), what messages to it are addressed to, and its epoch.
    #     count: gives the next counter of this end's epoch.
    #     last: counter of the last request, default -1.
    # ValueError: for a key, a name or an address that a lane cannot have.
    def __init__(self, fd: int, asks: bool, /, *terms: Any) -> None: ...

    # None in front of a message that is not for a lane: `unread` gives it. Without a body it waits on.
    def ask(self, body: bytes | None, timeout: float, look: float, /) -> Plain | None: ...
    def take(self, timeout: float, limit: int = 64, /) -> list[Plain] | None: ...

    # Sends bodies of requests, or replies as body and message id. Gives their ids, and the bytes that the
    # kernel did not take when nothing was to be waited for: the caller has to write them before anything
    # else, or to end the connection. Messages that need more than one write of 128 KiB are not for that.
    def post(
        self, messages: Sequence[bytes | tuple[bytes, str]], timeout: float, /
    ) -> tuple[list[str], bytes]: ...

    # What was received and not verified, and the descriptors that came: the caller's from now on.
    # `feed` takes back what was received too far.
    def unread(self) -> tuple[bytes, list[int]]: ...
    def feed(self, data: bytes, /) -> None: ...
    def close(self) -> None: ...
