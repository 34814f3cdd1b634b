"""Answers: what the reply to a call means.

::

    action of the reply   meaning
    return                the value
    raise                 the exception, which is raised here
    remote                `REMOTE`: the member is not sent by value, as a server of before says it
    reference             what is told of something that stays at the server
    future_register       the call goes on; its result is asked for by its id
    pending               it still does
    stream                the id of a stream
    items                 `Items` of a stream
    batch                 `BatchOutcome`
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ...protocol.contents import PS, as_list, is_word, read_ps_message, read_raised
from ...protocol.errors import RemoteProtocolError
from ...protocol.shown import shown
from ..reply import Reply

REMOTE = object()
"""Answer of a server to 'get' for a member that is not sent by value."""

GOES_ON = ("future_register", "pending")
"""Actions of a reply whose call has no outcome yet."""


class Items(NamedTuple):
    """What a stream gave: items in order, whether it has ended, and what it raised after them.

    ``refs`` has the index of each item that stays at the server, where None stands, and what is told of it.
    """

    items: list[Any]
    done: bool
    error: BaseException | None
    refs: list[tuple[int, dict[str, Any]]] = []  # noqa: RUF012 - never changed


class BatchOutcome(NamedTuple):
    """Results of a batch's calls in order, and what the next one raised; ``refs`` as of `Items`."""

    results: list[Any]
    error: BaseException | None
    refs: list[tuple[int, dict[str, Any]]] = []  # noqa: RUF012 - never changed


def is_return(content: Any) -> bool:
    """True for the reply that most calls get: a value."""
    kind = content.__class__
    if (kind is not tuple and kind is not list) or len(content) != 3:
        return False
    action = content[1]
    return action.__class__ is str and action == "return" and content[0].__class__ is str and content[0] == PS


def goes_on(content: Any) -> bool:
    """True for the reply to a call that has no outcome yet."""
    message = read_ps_message(content)
    return message is not None and message[0] in GOES_ON


def read(reply: Reply, endpoint: str, hide_traceback: bool) -> tuple[str, Any]:
    """Action and value of a reply.

    Args:
        reply: of a server.
        endpoint: whose it is, for the texts.
        hide_traceback: leave the remote traceback out of an exception's notes.

    Raises:
        Exception: what the remote member raised.
        RemoteProtocolError: when it is no answer to a call.
    """
    if is_word(reply.content, ""):
        raise RemoteProtocolError(f"{endpoint} could not read the request (empty reply)")
    message = read_ps_message(reply.content)
    if message is None:
        raise RemoteProtocolError(f"{endpoint} serves no object: it answered {shown(reply.content, 200)}")
    action, options = message
    if action == "return" or action in GOES_ON:
        return action, options
    if action == "raise":
        raise read_raised(options, endpoint, hide_traceback)
    if action == "remote":
        return action, REMOTE
    if action == "reference" and isinstance(options, dict):
        return action, cast("dict[str, Any]", options)
    if action in ("stream", "items", "batch") and isinstance(options, dict):
        return action, _parts(action, cast("dict[str, Any]", options), reply, endpoint, hide_traceback)
    raise RemoteProtocolError(f"{endpoint} serves no object: it answered with action {shown(action, 60)}")


def _parts(action: str, fields: dict[str, Any], reply: Reply, endpoint: str, hide_traceback: bool) -> Any:
    if action == "stream":
        return str(fields.get("id"))
    values = fields.get("items" if action == "items" else "results")
    if not isinstance(values, list | tuple):
        raise RemoteProtocolError(f"{endpoint} answered {action!r} without values: {shown(fields, 200)}")
    values = list(cast("list[Any]", values))
    raised = fields.get("raised")
    error = None
    if raised is not None:
        error = read_raised(raised, endpoint, hide_traceback)
    refs = _refs(fields.get("refs"), len(values), endpoint)
    if action == "items":
        return Items(values, fields.get("done") is True, error, refs)
    return BatchOutcome(values, error, refs)


def _refs(told: object, count: int, endpoint: str) -> list[tuple[int, dict[str, Any]]]:
    if not told:
        return []
    found: list[tuple[int, dict[str, Any]]] = []
    for each in as_list(told) or [told]:
        pair = as_list(each)
        index, about = pair if len(pair) == 2 else (None, None)
        if not (isinstance(index, int) and 0 <= index < count and isinstance(about, dict)):
            raise RemoteProtocolError(
                f"{endpoint} answered with references that cannot be read: {shown(told, 200)}"
            )
        found.append((index, cast("dict[str, Any]", about)))
    return found
