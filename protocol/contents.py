"""Contents with a meaning of their own: handshake, refusals, and the Proxy-Server protocol.

``docs/wire.md`` lists them. ``hello`` and ``placed`` alone are allowed without the receiver's agent id under
the signature, because they change nothing there. Handshake and refusals are JSON: every peer reads them.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any, cast

from . import errors, exceptions
from .errors import LockedBy, PzcError, RemoteError
from .exceptions import MOST, text_of
from .kinds import qualified
from .shown import plain, shown

PS = "PSMessage"
RETURN = "return"
"""Action of the reply that most calls get: a value."""

ERROR = "PZCError"

_TRACEBACK = 4 * MOST
"""Characters of a traceback that are sent."""

SEQUENCES = frozenset({tuple, list})
"""Classes of what comes as a list: not every serializer has tuples."""

_CARRY_ERRORS = frozenset({"raise", "batch", "items"})

_BY_CODE: dict[str, type[PzcError]] = {
    cls.__name__: cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, PzcError) and cls is not RemoteError
}


def control(content: object) -> str | None:
    """The word of a control request such as ``hello``, or None for any other content."""
    if isinstance(content, dict):
        word = cast("dict[str, Any]", content).get("pzc")
        return word if isinstance(word, str) else None
    return None


def is_word(content: object, word: str) -> bool:
    """True for exactly that text; comparing an array with a text would give an array."""
    return isinstance(content, str) and content == word


def refusal(error: Exception) -> list[Any]:
    """Content that tells a peer why its request was not executed."""
    code = type(error).__name__ if isinstance(error, PzcError) else "RemoteProtocolError"
    fields: dict[str, Any] = {"code": code, "text": text_of(error)}
    if isinstance(error, LockedBy):
        fields["locked"] = [error.owner, error.since, error.reason]
    return [ERROR, fields]


def read_refusal(content: object) -> PzcError | None:
    """The error inside a refusal, or None for any other content; unknown codes become RemoteError."""
    parts = as_list(content)
    if len(parts) != 2 or not is_word(parts[0], ERROR) or not isinstance(parts[1], dict):
        return None
    fields = cast("dict[str, Any]", parts[1])
    code, text = plain(str(fields.get("code"))), str(fields.get("text"))
    if code != LockedBy.__name__:
        return error_of(code, text)
    try:
        owner, since, reason = cast("Any", fields.get("locked"))
        return LockedBy(plain(str(owner)), float(since), plain(str(reason)))
    except Exception:  # what a peer says may be anything
        return LockedBy("somebody", 0.0, plain(text))


def error_of(code: str, text: str) -> PzcError:
    """The error of a peer by the name of its class; unknown ones become RemoteError."""
    cls, text = _BY_CODE.get(code), plain(text)
    return cls(text) if cls is not None else RemoteError(code, text)


def ps_message(action: str, options: object) -> tuple[str, str, object]:
    """A message of the Proxy-Server protocol."""
    return PS, action, options


def read_ps_message(content: Any) -> tuple[str, Any] | None:
    """Action and options of a Proxy-Server message, or None for any other content."""
    if isinstance(content, list | tuple) and len(parts := cast("list[Any]", content)) == 3:
        word, action, options = parts
        if isinstance(word, str) and word == PS and isinstance(action, str):
            return action, options
    return None


def as_table(content: object) -> dict[str, Any]:
    """A table of a peer's as it is; an empty one for anything else."""
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def as_list(content: object) -> Sequence[Any]:
    """A list or tuple of a peer's as it is; an empty one for anything else."""
    return cast("Sequence[Any]", content) if isinstance(content, list | tuple) else ()


def as_text(value: object) -> str:
    """A text of a peer's as it is; of anything else what it looks like."""
    return value if isinstance(value, str) else shown(value)


def raised(error: BaseException) -> tuple[str, str, object]:
    """``raise`` reply: the exception and its traceback lines, as the original's."""
    frames = vars(BaseException)["__traceback__"].__get__(error)  # a class may hide it
    try:
        formatted = traceback.format_exception(type(error), error, frames)
    except Exception:  # an attribute that its class defines, such as its notes
        error = RemoteError(qualified(type(error)), text_of(error))
        formatted = traceback.format_exception(RemoteError, error, frames)
    lines, room = list[str](), _TRACEBACK
    for line in formatted:
        lines.append(line[:room])
        room -= len(lines[-1])
        if not room:
            break
    if lines[0].startswith("Traceback "):
        del lines[0]
    # Its frames, and those that called them, would hold the reply and what the call was about.
    return ps_message("raise", (error.with_traceback(None), lines))


def is_raised(content: object) -> BaseException | None:
    """The exception in a ``raise`` reply that this side has made, also behind the last items or results."""
    message = read_ps_message(content)
    options = message[1] if message is not None and message[0] in _CARRY_ERRORS else None
    if isinstance(options, dict):
        options = cast("dict[str, Any]", options).get("raised")
    return cast("tuple[Any, Any]", options)[0] if isinstance(options, tuple) else None


def portable(content: object) -> object:
    """Content whose exception, if it brings one, has the form that every receiver reads (`exceptions`)."""
    message = read_ps_message(content)
    if message is None or message[0] not in _CARRY_ERRORS:
        return content
    action, options = message
    fields = as_table(options)
    error, lines = cast("tuple[Any, list[str]]", fields.get("raised") if fields else options) or (None, [])
    if not isinstance(error, BaseException):
        return content
    form = exceptions.write(error), lines
    return ps_message(action, {**fields, "raised": form} if fields else form)


def read_raised(options: object, peer: str, hide_traceback: bool) -> BaseException:
    """The exception of a ``raise`` reply, with the remote traceback as a note.

    Args:
        options: of the reply.
        peer: whose reply it is, for the note.
        hide_traceback: leave the note out.
    """
    bare: tuple[object, list[str]] = options, []  # Pizco 0.1 sends no traceback
    try:
        form, lines = bare if isinstance(options, BaseException) else cast("tuple[Any, Any]", options)
        trace = "".join(map(str, lines))
        error = form if isinstance(form, Exception) else exceptions.read(form)
    except Exception:  # what a peer says may be anything
        return RemoteError("unknown", f"malformed raise reply from {peer}: {shown(options, 200)}")
    error.__dict__["_pzc_traceback"] = lines
    if isinstance(error, RemoteError):
        error.remote_traceback = trace
    if trace and not hide_traceback:
        error.add_note(f"Remote traceback ({peer}):\n{trace.rstrip()}")
    return error
