"""Express: the shortest way of a publication to the links of its topic, prepared for that topic.

::

    state      event                                        next
    -          published the general way, for links only    prepared
    prepared   publish, a place with every reader           prepared; numbered, and on its way
    prepared   publish, a window is full                    prepared; nothing was done: the general way waits
    prepared   links, topics, or what is said of them       stale; nothing was done: the general way
               have changed

Links only means that nobody listens by broadcast, and that the topic has neither a throttle nor a wait for
its readers nor a mailbox that blocks. What is to be decided is decided by `Outlets`, as on the general way.
"""

from __future__ import annotations

from time import monotonic

from ....transport.wire import now_ms
from .outlet import Outlet
from .outlets import Outlets
from .published import Published
from .turns import Route, Turn


class Express:
    """Publishes one topic; any thread.

    Args:
        outlets: the links.
        topic: neither empty nor reserved.
        route: of the topic.
        version: of the routes when that was looked up.
        mailed: mailboxes want it, too.
    """

    __slots__ = ("_mail", "_only", "_outlets", "_route", "_topic", "_version")

    def __init__(self, outlets: Outlets, topic: str, route: Route, version: int, mailed: bool) -> None:
        self._outlets = outlets
        self._topic = topic
        self._route = route
        self._version = version
        self._only = route.outlets[0] if len(route.outlets) == 1 else None
        self._mail = outlets.mail if mailed else None

    @property
    def is_stale(self) -> bool:
        """True when links, topics or what is said of them have changed."""
        return self._outlets.routes.version != self._version

    def publish(self, content: object, key: str) -> Published | None:
        """Number and send a notification; None when it is not to be done here, and nothing was done.

        Raises:
            SerializeError: when the content cannot be expressed.
            LocalProtocolError: when it is too large.
        """
        since, outlets, route = monotonic(), self._outlets, self._route
        lock, routes = outlets.lock, outlets.routes
        published = Published(self._topic, key, content)
        turn = Turn(published, since, route)
        with lock:
            if routes.version != self._version or not outlets.has_room(turn):
                return None
        try:
            if route.remote:
                outlets.encoding.encode(published, blocks=route.blocks, arrays=route.arrays)
            if self._mail is not None:
                self._mail.prepare(turn)
            elif self._only is not None and published.slot is None and self._send_alone(turn, self._only):
                return published
            with lock:
                current = routes.version == self._version and outlets.has_room(turn)
                if current:
                    outlets.commit(turn, outlets.numbers.get(self._topic, 0) + 1, None)
        except BaseException:
            outlets.withdraw(turn)
            raise
        if not current:
            outlets.withdraw(turn)
            return None
        if route.outlets:
            outlets.flush(turn)
        return published

    def _send_alone(self, turn: Turn, outlet: Outlet) -> bool:
        """Number it, and write it to the one socket that it goes to.

        False, and nothing was done, when it has to wait: behind others, for others of its burst, or for a
        reader that has to come back.
        """
        outlets, published = self._outlets, turn.published
        if outlets.bursts.on or not outlet.sending.acquire(blocking=False):
            return False
        try:
            with outlets.lock:
                way = outlet.way
                if way is None or way.kind != "unix" or outlet.waiting or not way.ready:
                    return False
                if outlets.routes.version != self._version or not outlets.has_room(turn):
                    return False
                number = outlets.numbers[self._topic] = outlets.numbers.get(self._topic, 0) + 1
                published.number, published.sent_ms = number, now_ms()
                outlets.meters[self._topic].add(turn.since, 1, len(published.body))
                batch = outlet.post_alone(published, way, turn.since)
            outlets.bursts.begin(turn.since)
            if batch is not None:
                way.send(*batch)  # what does not go will go again over another way
        finally:
            outlet.sending.release()
        if outlet.waiting:  # for whoever could not send meanwhile
            outlet.flush()
        outlets.bursts.end()
        return True


def prepare(outlets: Outlets, topic: str) -> Express | None:
    """The express of a topic that nobody listens to by broadcast; None when it needs the general way."""
    version = outlets.routes.version  # before the rest: whatever changes from now on makes it stale
    about = outlets.routes.about(topic)
    if about.throttle is not None or about.ack_wait is not None:
        return None
    mailed = outlets.mail is not None and outlets.mail.wants(topic)
    if outlets.mail is not None and outlets.mail.may_block:
        return None
    route = outlets.routes.of(topic)
    if outlets.mail is not None and mailed and not route.outlets:
        return outlets.mail.express(topic, route, version)
    return Express(outlets, topic, route, version, mailed)
