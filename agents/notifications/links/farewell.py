"""Farewell: the end of a publisher's links, when it is stopped.

::

    at the stop, a reader                                     what happens
    has a way, or opens its first one, and something waits    it goes, as fast as the reader takes it
    for it, is kept, or is not yet received
    still has not taken everything when `TELLING` begins      what has not gone is dropped
    was told of everything but drops at the end of a topic    it is told of them, in the time that is left

What a reader has received it hands on, whatever becomes of the link. One that lost its way is not waited for.
"""

from __future__ import annotations

import math
import time

from ....protocol import limits
from .live_outlet import LiveOutlet
from .mailbox_outlet import MailboxOutlet
from .outlet import Outlet
from .outlets import Outlets
from .ways import PollWay, UnixWay

TELLING = 0.25
"""Part of that time in which nothing but losses goes, behind what is on its way."""

_LOOK = 0.005
"""Seconds after which it looks again, unless something was acknowledged."""


def bid(outlets: Outlets) -> None:
    """Send what waits for the readers of a publisher's links; any thread but the I/O thread."""
    timeout = limits.current.farewell
    deadline = time.monotonic() + timeout
    with outlets.lock:
        owing = [outlet for outlet in outlets.links.values() if _owes(outlet)]
    while owing:
        left = deadline - time.monotonic()
        for outlet in owing:
            _send(outlets, outlet, left <= TELLING * timeout)
        if left <= 0:
            return
        with outlets.lock:
            owing = [outlet for outlet in owing if _owes(outlet)]
            if owing:
                outlets.changed.wait(_LOOK)


def _owes(outlet: Outlet) -> bool:
    """Whether its reader, which can be reached, has not got or been told of everything; with the lock."""
    way = outlet.way
    if way is None and outlet.was_reached:
        return False
    if isinstance(outlet, MailboxOutlet) and isinstance(way, PollWay) and not way.ready:
        return False  # what it keeps for a reader that does not ask is lost
    return outlet.queue.behind or outlet.waiting > 0 or (isinstance(way, UnixWay) and not way.drained)


def _send(outlets: Outlets, outlet: Outlet, late: bool) -> None:
    with outlets.lock:
        if late and isinstance(outlet, LiveOutlet):
            outlet.give_up()
        outlet.pull()
    outlet.flush()
    if not outlet.waiting:
        outlet.beat(math.inf)
