"""Flow: the messages of one topic to one reader process, as its policy lets them pass.

What happens to a new message; the way is *open* when it can take a message and none is kept before it, and
*room* is ``outstanding + pending < window``::

    policy     the way     state                  verdict    then
    drop(n)    open        -                      SEND       outstanding + 1
               not open    pending < n            KEEP       kept
                           pending = n            DROP       the new one is dropped
    latest(k)  open        -                      SEND       outstanding + 1
               not open    pending < k            KEEP       kept
                           pending = k            KEEP       kept; the oldest kept one is dropped
    block      open        room                   SEND       outstanding + 1
               not open    room                   KEEP       kept
               any         no room                WAIT       whatever ``on_timeout`` says, in the end

Then every message is in one state::

    state        event                            next state
    kept         take                             outstanding
                 discard, change, a newer one     dropped, untold
    outstanding  acknowledge                      done
    dropped      lost                             told, with the first message that was published after it

Always: sent + pending + dropped = offered, and what `lost` returned sums up to what was dropped. A block
drops nothing by itself, and as long as its policy stays never has more than ``window`` messages outstanding
and kept.
"""

from __future__ import annotations

import enum
import sys
from collections import deque
from typing import Final, Generic, TypeVar

from ..protocol.errors import ConfigError, LocalProtocolError, PolicyRefused
from .policies import Policy

T = TypeVar("T")

UNBOUNDED: Final = sys.maxsize


class Verdict(enum.Enum):
    """What would happen to a new message."""

    SEND = "send"
    KEEP = "keep"
    DROP = "drop"
    WAIT = "wait"


_SEND, _KEEP, _DROP, _WAIT = Verdict.SEND, Verdict.KEEP, Verdict.DROP, Verdict.WAIT


class Flow(Generic[T]):
    """One topic of one link at its publisher; see the tables in the module's docstring.

    Not thread-safe: the publisher's lock protects it. `verdict`, then `send`, `keep` or `drop` offer a
    message.

    Args:
        policy: ``drop``, ``latest`` or ``block``.
        window: most messages of a block that are not done, 1 or more; None for the policy's bound. The
            other policies have no window.

    Attributes:
        policy: in force.
        outstanding: messages that went and are not done yet, whatever the policy.
        dropped: messages dropped so far, told or not.

    Raises:
        PolicyRefused: for a mailbox.
        ConfigError: for a window below 1.
    """

    __slots__ = (
        "_before",
        "_behind",
        "_bound",
        "_fresh",
        "_kept",
        "_newest",
        "_untold",
        "_window",
        "dropped",
        "outstanding",
        "policy",
    )

    def __init__(self, policy: Policy, window: int | None = None) -> None:
        self.outstanding = 0
        self.dropped = 0
        self._kept: deque[T] = deque()
        self._before: deque[int] = deque()  # drops between each kept message and the one before it
        self._behind = 0  # drops after the last message
        self._untold = 0  # drops before the last message that went
        self._fresh = False  # drops behind a kept message that just went are not told with it
        self._adopt(policy, window)

    @property
    def pending(self) -> int:
        """How many messages are kept."""
        return len(self._kept)

    def kept(self) -> list[T]:
        """The kept messages, oldest first."""
        return list(self._kept)

    def verdict(self, ready: bool) -> Verdict:
        """What would happen to a new message now; changes nothing.

        Args:
            ready: whether the way can take a message now.
        """
        pending = len(self._kept)
        if self.outstanding + pending >= self._window:
            return _WAIT
        if ready and not pending:
            return _SEND
        return _DROP if pending >= self._bound and not self._newest else _KEEP

    def enter(self) -> bool:
        """Take a place for a new message when it can go now over a way that is open; False: ask `verdict`."""
        if self._kept or self.outstanding >= self._window:
            return False
        self.outstanding += 1
        self._fresh = False
        return True

    def send(self) -> None:
        """A new message goes now, as `verdict` said.

        Raises:
            LocalProtocolError: when kept ones come first, or the window is full.
        """
        if self._kept or self.outstanding >= self._window:
            raise self._too_early("sent")
        self.outstanding += 1
        self._fresh = False

    def keep(self, item: T) -> list[T]:
        """Keep a new message by the policy.

        Returns:
            What was dropped for it, and counted: nothing, an older one, or ``item`` itself.

        Raises:
            LocalProtocolError: when the window is full.
        """
        kept = self._kept
        if self.outstanding + len(kept) >= self._window:
            raise self._too_early("kept")
        removed: list[T] = []
        if len(kept) >= self._bound:
            if not self._newest:
                self.drop()
                return [item]
            removed.append(self._remove(0))
        kept.append(item)
        self._before.append(self._behind)
        self._behind = 0
        return removed

    def drop(self) -> None:
        """A new message is dropped and counted, because of `Verdict.DROP`, or a wait that was too long."""
        self.dropped += 1
        self._behind += 1

    def peek(self) -> T | None:
        """What `take` would give; changes nothing."""
        return self._kept[0] if self._kept and self.outstanding < self._window else None

    def take(self) -> T | None:
        """The oldest kept message, which goes now; None when none is kept, or the window is full."""
        if not self._kept or self.outstanding >= self._window:
            return None
        self.outstanding += 1
        self._untold += self._before.popleft()
        self._fresh = self._behind > 0
        return self._kept.popleft()

    def discard(self, item: T) -> bool:
        """Drop and count a kept message, because its memory is wanted; False when it is not kept.

        Every policy obeys: whoever offers a block discards nothing of it.
        """
        for index, other in enumerate(self._kept):
            if other is item:
                self._remove(index)
                return True
        return False

    def acknowledge(self, count: int = 1) -> None:
        """Messages that went are done, whatever the policy.

        Raises:
            LocalProtocolError: when fewer are outstanding.
        """
        if self.outstanding < count:
            raise LocalProtocolError(
                "a message was acknowledged that was not sent; acknowledge each one once"
            )
        self.outstanding -= count

    def lost(self) -> int:
        """How many drops to tell now; they are told with this call.

        After `send` and `take` that is what was dropped since the message before. At any other time it is
        what was dropped since the last message; while messages are kept, drops behind them wait.
        """
        lost = self._untold
        self._untold = 0
        if not self._fresh and not self._kept:
            lost += self._behind
            self._behind = 0
        self._fresh = False
        return lost

    def change(self, policy: Policy, window: int | None = None) -> list[T]:
        """Go on with another policy, because the subscriptions of the process have changed.

        A block takes over everything kept, and its window counts what is outstanding already.

        Args:
            policy: as for the class.
            window: as for the class.

        Returns:
            What no longer fits, dropped and counted: the newest for ``drop``, the oldest for ``latest``.

        Raises:
            PolicyRefused: for a mailbox; nothing was changed.
            ConfigError: for a window below 1; nothing was changed.
        """
        self._adopt(policy, window)
        excess = len(self._kept) - self._bound
        if excess <= 0:
            return []
        first = 0 if self._newest else self._bound
        return [self._remove(first) for _ in range(excess)]

    def _adopt(self, policy: Policy, window: int | None) -> None:
        if policy.name == "mailbox":
            raise PolicyRefused("policy mailbox is not offered by a flow: use block(), drop(n) or latest(k)")
        if window is not None and window < 1:
            raise ConfigError(f"a flow needs a window of at least 1 message, not {window}")
        self.policy = policy
        self._newest = policy.name == "latest"
        self._bound = policy.bound if policy.lossy else UNBOUNDED
        self._window = UNBOUNDED if policy.lossy else window or policy.bound

    def _remove(self, index: int) -> T:
        """Drop a kept message; those dropped right before it are now before the next one."""
        kept, before = self._kept, self._before
        item = kept[index]
        carried = before[index] + 1
        del kept[index], before[index]
        if index < len(before):
            before[index] += carried
        else:
            self._behind += carried
        self.dropped += 1
        return item

    def _too_early(self, what: str) -> LocalProtocolError:
        return LocalProtocolError(
            f"a message cannot be {what} while {self.outstanding} of {self._window} are outstanding and "
            f"{len(self._kept)} kept; ask verdict first"
        )
