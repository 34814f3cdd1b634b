"""Regulars: the short cuts of clients that come over tcp.

A request of a known header is judged as every other, in the same order and by the same memory: signature,
freshness, replay window; only then it is decoded. What does not pass goes the general way, which refuses
it and says why; nothing was written down for it. What has passed must not be judged again, since the
window knows it now: when it is none of the usual calls, it is handed on as verified.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from ...protocol import limits
from ...protocol.codec import FRESH_MS
from ...protocol.envelope import Envelope
from ...protocol.errors import PzcError, RemoteProtocolError, ReplayedMessage
from ...protocol.frames import Buffer
from ...protocol.window import ReplayWindow
from ..calling.peers import Nonces
from ..wire import now_ms
from .replies import Frames, Transmit
from .shortcut import House, ShortCut, is_quick


class Regular(ShortCut):
    """One client; arguments as `ShortCut`.

    Attributes:
        known_as: by the replay window; None when nothing is signed.
    """

    def __init__(self, house: House, envelope: Envelope, header: bytes) -> None:
        super().__init__(house, envelope, header, "tcp", "")
        signer = envelope.signer
        self.known_as = None if signer is None else (signer.key_id, envelope.sender, envelope.epoch)

    def serve(self, frames: Frames, transmit: Transmit) -> bool:
        """Execute and answer an admitted request; False when it must go on as `request`. I/O thread."""
        try:
            content = self.session.decode(frames[2])
        except Exception:  # the general way tells it
            return False
        if not is_quick(content):
            return False
        house, call_id = self.house, str(frames[3], "ascii")
        encode = partial(self.encode, frames, call_id, transmit)
        try:
            made = house.execution.quick_aside(self.caller, content, call_id, encode)
        except BaseException as exc:  # such as SystemExit, by a result that is being encoded
            lost = RemoteProtocolError("the answer could not be written")
            house.replies.refuse(self.request(frames, transmit), exc if isinstance(exc, PzcError) else lost)
            return True
        if made is None:
            return False
        transmit(made)
        return True


class Regulars:
    """Short cuts by the header of their requests; I/O thread only.

    Args:
        house: of the agent.
        window: replay memory, the same as for all other requests.
        nonces: what is known of the clients' clocks.
    """

    def __init__(self, house: House, window: ReplayWindow, nonces: Nonces) -> None:
        self._house = house
        self._window = window
        self._nonces = nonces
        self._known: OrderedDict[Buffer, Regular] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def meet(self, envelope: Envelope, frames: Frames) -> None:
        """A request was verified in the general way, receiver included."""
        if envelope.stamp is None or not self._house.serves(envelope, frames[4]):
            return
        header = bytes(frames[0])
        self._known[header] = Regular(self._house, envelope, header)
        self._known.move_to_end(header)
        if len(self._known) > limits.current.short_cuts:
            self._known.popitem(last=False)

    def admit(self, frames: Frames) -> Regular | None:
        """Who sent a request, which was verified and is new; None when it must go the general way.

        Nothing was written down then, so that the general way judges it as if it had just come.
        """
        header = frames[0]
        regular = self._known.get(header) if type(header) is bytes else None
        if regular is None:
            return None
        found = regular.session.verify(frames)
        if found is None:
            return None
        ours = regular.known_as
        if ours is not None:
            ms, counter = found
            if not -FRESH_MS <= now_ms() + self._nonces.offset_of(ours[0], ours[1]) - ms <= FRESH_MS:
                return None
            try:
                self._window.admit_of(ours, ms, counter)
            except ReplayedMessage:
                return None
        self._known.move_to_end(header)
        return regular
