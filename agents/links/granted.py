"""Granted: what readers are done with, told over a Unix connection that is a link, on its shortest way.

A stream of notifications is answered by a stream of grants that are all alike: small, pickled, signed by
GMAC or unsigned, of one agent. Whatever else comes over the connection goes the general way, which knows all
rules; so does a grant that cannot be taken, which is told by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...protocol.errors import RemoteProtocolError
from ...protocol.frames import PZC01, format_header
from ...protocol.session import AnsweringSession, Party
from ...protocol.shown import shown
from ...protocol.signing import Suite
from ..messages import as_text
from ..serving.replies import Frames, Request
from ..wire import Protocol
from .outlet import Outlet
from .outlets import Outlets

if TYPE_CHECKING:
    from ..serving.fastlane import Connection

_MOST_OTHERS = 10_000
_SUITES = (Suite.NONE, Suite.AES256_GMAC)


class Granted:
    """Takes the grants of one link; in the thread of its connection.

    Args:
        outlets: of the publisher.
        outlet: the link.
        connection: over which the request came.
        session: reads them.
    """

    def __init__(
        self, outlets: Outlets, outlet: Outlet, connection: Connection, session: AnsweringSession
    ) -> None:
        self._outlets = outlets
        self._outlet = outlet
        self._connection = connection
        self._session = session

    def serve(self, frames: Frames) -> bool:
        """Take a grant; False when it must go the general way."""
        connection, session, outlet = self._connection, self._session, self._outlet
        try:
            found = session.verify(frames)
            if found is None or found[1] <= connection.last or outlet.ended:
                return False
            content = session.decode(frames[2])
            if type(content) is not dict or content.get("pzc") != "grant" or "oneway" in content:
                return False
            if as_text(content.get("link")) != outlet.link:
                return False
            self._outlets.acknowledged(outlet, *read_grant(content))
        except Exception:  # the general way tells it
            return False
        connection.last = found[1]
        connection.fast.counters.add("requests")
        return True


def grants_of(
    outlets: Outlets,
    outlet: Outlet,
    request: Request,
    connection: Connection,
    protocol: Protocol,
    agent_id: str,
) -> Granted | None:
    """What takes the grants of a link that a request has opened; None when something is unusual."""
    codec, envelope = protocol.codec, request.envelope
    if request.suite not in _SUITES or codec.suite or "pickle" not in codec.accept_serializers:
        return None
    ours = None if codec.keyring is None else codec.keyring.active
    session = AnsweringSession(
        Party(agent_id, connection.receiver, ours, protocol.epoch),
        Party(envelope.sender, request.receiver, envelope.signer, envelope.epoch),
        format_header(PZC01, envelope.sender, "", envelope.sequence),
        False,
        protocol.counter(),
    )
    return Granted(outlets, outlet, connection, session)


def read_grant(content: dict[str, Any]) -> tuple[int, int, list[int]]:
    """What a reader has, up to which number it is done, and with which others.

    Raises:
        RemoteProtocolError: for a grant of another form.
    """
    received, upto = link_number(content.get("received")), link_number(content.get("upto"))
    others = content.get("others", [])
    if type(others) is not list or len(cast("list[Any]", others)) > _MOST_OTHERS:
        raise RemoteProtocolError("a grant names the other numbers in a list of sane length")
    return received, upto, [link_number(each) for each in cast("list[Any]", others)]


def link_number(value: object) -> int:
    """A number of a link, out of what a reader said.

    Raises:
        RemoteProtocolError: for anything else.
    """
    if type(value) is not int or value < 0:
        raise RemoteProtocolError(f"expected a number of a link, not {shown(value, 40)}")
    return value
