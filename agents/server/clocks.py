"""Clocks of those who ask: how far they are from ours, as a handshake has measured it."""

from __future__ import annotations

import secrets

from ...protocol import limits
from ...protocol.quotas import Quotas
from ...transport.wire import now_ms


class Nonces:
    """Nonces that were given to peers, each good for one measurement of its clock.

    All is kept by the key that signed, within `Limits`: the holder of another key can neither answer for a
    peer nor make its clock forgotten. I/O thread only.
    """

    def __init__(self) -> None:
        self._given: Quotas[str, int] = Quotas()
        self._offsets: Quotas[str, int] = Quotas()

    def give(self, key_id: str) -> str:
        """A new nonce, for a peer that signs with that key."""
        nonce = secrets.token_hex(8)
        self._given.put(key_id, nonce, now_ms(), limits.current.nonces_per_key)
        return nonce

    def take(self, nonce: object, key_id: str, sender: str, sent_ms: int) -> None:
        """A peer echoed a nonce in a message it stamped ``sent_ms``: remember its clock offset."""
        given = self._given.pop(key_id, nonce) if isinstance(nonce, str) else None
        now = now_ms()
        if given is not None and now - given <= 10_000:
            self._offsets.put(key_id, sender, sent_ms - (given + now) // 2, limits.current.senders_per_key)

    @property
    def measured(self) -> bool:
        """True when any clock was measured."""
        return bool(self._offsets)

    def offset_of(self, key_id: str, sender: str) -> int:
        """Sender's clock minus ours in milliseconds, 0 when it was never measured."""
        return self._offsets.get(key_id, sender) or 0
