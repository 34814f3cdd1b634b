"""RemoteReference: something at a server, held as if it were local.

::

    what is told of a member         reading it gives
    kind reference                   a `RemoteReference`, made once and kept
    kind method, signal, items       a `Member`, made once and kept
    anything else                    what the server answers each time: a value, or one of the two

Nothing is ever set here: what is assigned is sent, and what is not there is refused by the server.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from ...protocol.errors import AgentClosed, MemberRefused, PzcError
from ...protocol.paths import Path, text
from ...protocol.values import PLAIN, is_class_of_values
from ...transport.wire import Protocol
from ..compat.pizco_client import instead
from ..current import current
from ..references import Reference
from ..shown import first_line, html_page, html_table
from ..stub import signature_of
from .answers import REMOTE, Items
from .described import About, Entry
from .operations import CALLED, OPERATIONS, Operation, made_of, special
from .remote import RemoteObject
from .sent import Substituted, call_of, filled, is_plain, place_of
from .terms import USUAL

Cls = TypeVar("Cls", bound=type)

HELD = frozenset({"items", "method", "remote", "signal"})
"""Kinds of members that are used through a `Member`, never sent."""

_COMPLETERS = frozenset({"inspect", "jedi", "rlcompleter"})
"""Modules that look at every member of an object, and must not read an instrument for that."""

_OWN = frozenset({"_proxy_remote", "_proxy_anchor", "_proxy_finalizer", "_proxy_path"})
_NOT_SERVED = "is private: members that begin with '_' are never served"


class _Doc:
    """Descriptor of ``__doc__``: of something remote what its server tells, of the class its own text."""

    def __init__(self, own: str | None) -> None:
        self._own = own

    def __get__(self, instance: Any, owner: object = None) -> str | None:
        return self._own if instance is None else instance._proxy_documentation()


class _Signature:
    """Descriptor of ``__signature__``: parsed when somebody looks at it; the class itself has none."""

    def __get__(self, instance: Any, owner: object = None) -> inspect.Signature | None:
        told = "" if instance is None else instance._proxy_signature()
        if not told:
            raise AttributeError("__signature__")
        return signature_of(told)


def explained(cls: Cls) -> Cls:
    """Class decorator: the documentation of an instance is what its server tells."""
    cls.__doc__ = cast("Any", _Doc(cls.__doc__))
    return cls


class Later:
    """What a reference that was sent knows until its first use.

    Args:
        target: endpoint or name of the server.
        connect: makes what a connected one has.
    """

    def __init__(self, target: str, connect: Callable[[str, Protocol | None], dict[str, Any]]) -> None:
        self.target = target
        self.connect = connect
        self.protocol: Protocol | None = None
        self.lock = threading.Lock()
        self.closed = False


@explained
@made_of(row for row in OPERATIONS if special(row.name))
class RemoteReference:
    """Something that a server holds: what is served, or something in it, such as a channel.

    ``ref.attr``, ``ref.attr = v``, ``ref.method(...)``, ``ref.signal.connect(slot)``, ``ref[k]``,
    ``len(ref)``, ``for item in ref``, ``ref(...)``, ``with ref``, ``dir(ref)``, ``help(ref)``. Get it from a
    proxy, never directly. Every operation raises what happened at the server, or the errors of a call. It is
    equal to every other reference to the same path of the same server.

    Args:
        remote: what all references of a proxy share.
        path: from what is served.
        about: what was told of it.
        leases: what keeps it at the server.
    """

    __call__: Callable[..., Any]
    __getitem__: Callable[..., Any]
    __setitem__: Callable[..., None]
    __delitem__: Callable[..., None]
    __len__: Callable[..., int]
    __contains__: Callable[..., bool]
    __iter__: Callable[..., Iterator[Any]]
    __enter__: Callable[..., Any]
    __exit__: Callable[..., Any]
    __signature__ = _Signature()

    _proxy_remote: RemoteObject
    _proxy_path: Path
    _proxy_told: Entry = {}  # noqa: RUF012 - never changed
    _proxy_leases: object = None
    _proxy_terms = USUAL

    def __init__(self, remote: RemoteObject, path: Path, about: Entry, leases: object = None) -> None:
        own = vars(self)
        own["_proxy_remote"] = remote
        own["_proxy_anchor"] = remote.anchor and remote.anchor()
        own["_proxy_path"] = path
        own["_proxy_told"] = about
        own["_proxy_leases"] = leases

    # Members

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return self._proxy_private(name)
        remote, path = self._proxy_remote, self._proxy_path
        generation = remote.generation
        about = remote.about(path)
        entry = about.members.get(name)
        kind = None if entry is None else entry.get("kind")
        if entry is not None and (kind in HELD or kind == "reference"):
            return self._proxy_keep(name, entry, generation)
        if entry is None and name in CALLED and about.callable:
            return getattr(remote.refer(path, {"kind": "method"}, self._proxy_leases), name)
        if _is_completed():
            raise AttributeError(name)
        value = remote.request("get", place_of((*path, name)), self._proxy_terms)
        return remote.refer((*path, name), {"kind": "remote"}, None) if value is REMOTE else value

    def _proxy_private(self, name: str) -> Any:
        if name in _OWN and (later := vars(self).get("_proxy_later")) is not None:
            self._proxy_connect(later)
        if name in vars(self):  # also when another thread has connected it
            return vars(self)[name]
        raise MemberRefused(f"{name!r} {_NOT_SERVED}")

    def _proxy_keep(self, name: str, entry: Entry, generation: int) -> Any:
        """A member that the next access finds without coming here, until the server is another one."""
        remote, own = self._proxy_remote, vars(self)
        made = remote.refer((*self._proxy_path, name), entry, self._proxy_leases)
        if "_proxy_remembers" not in own:
            own["_proxy_remembers"] = True
            remote.remember(self)
        own[name] = made
        if remote.generation != generation:  # another one meanwhile
            own.pop(name, None)
        return made

    def _proxy_forget(self) -> None:
        for name in [name for name in list(vars(self)) if not name.startswith("_")]:
            vars(self).pop(name, None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise MemberRefused(f"{name!r} {_NOT_SERVED}")
        options = place_of((*self._proxy_path, name))
        options["value"] = value
        if value.__class__ not in PLAIN:
            options = filled(options, self._proxy_sent)
        self._proxy_remote.request("setattr", options, self._proxy_terms)

    def __delattr__(self, name: str) -> None:
        raise MemberRefused(f"{name!r} cannot be deleted: members of a served object are read and set")

    def __dir__(self) -> list[str]:
        about = self._proxy_about()
        return sorted({*about.members, *(CALLED if about.callable else ())})

    # What the table of operations stands on

    def _proxy_options(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        options = call_of(self._proxy_path, method, args, kwargs)
        if is_plain(args) and (not kwargs or is_plain(kwargs.values())):
            return options
        return filled(options, self._proxy_sent)

    def _proxy_exec(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        options = self._proxy_options(method, args, kwargs)
        return self._proxy_remote.request("exec", options, self._proxy_terms)

    def _do_exec(self, row: Operation, args: tuple[Any, ...]) -> Any:
        remote = self._proxy_remote
        if (do := instead(remote.peer, row.name)) is not None:
            copied = {**place_of(self._proxy_path), "force_as_object": True}
            return do(remote.request("get", copied, self._proxy_terms), *args)
        answer = self._proxy_exec(row.name, args, {})
        return answer.items if isinstance(answer, Items) else answer

    def _do_call(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._proxy_exec("__call__", args, kwargs)

    def _do_iter(self) -> Any:
        found = self._do_exec(ITERATE, ())
        if isinstance(found, RemoteReference):
            return map(found.__getitem__, range(len(found)))
        return iter(found)

    # What it tells of itself

    def _proxy_about(self) -> About:
        return self._proxy_remote.about(self._proxy_path)

    def _proxy_documentation(self) -> str:
        return "" if "_proxy_later" in vars(self) else self._proxy_about().text()

    def _proxy_signature(self) -> str:
        return "" if "_proxy_later" in vars(self) else self._proxy_about().signature

    def _proxy_type(self) -> str:
        known = self._proxy_remote.known(self._proxy_path)
        full = str(self._proxy_told.get("type") or "") if known is None else known.type
        return full.rpartition(".")[2]

    def __repr__(self) -> str:
        if (later := vars(self).get("_proxy_later")) is not None:
            return f"<{text(self._proxy_path)} of {later.target}>"
        type_, remote = self._proxy_type(), self._proxy_remote
        name = " of ".join(filter(None, (text(self._proxy_path), remote.name)))
        return f"<{': '.join(filter(None, (name, type_)))} at {remote.endpoint}>"

    def _repr_html_(self) -> str | None:
        """The members, for a notebook; None, which shows the text, when nothing is told of them."""
        try:
            members = self._proxy_about().members
        except PzcError:
            return None
        rows = (
            (name + str(told.get("signature") or ""), told.get("kind", ""), first_line(told.get("doc")))
            for name, told in sorted(members.items())
        )
        return html_page(repr(self), html_table(("member", "kind", ""), rows)) if members else None

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemoteReference):
            return NotImplemented
        if self is other:
            return True
        if "_proxy_later" in vars(self) or "_proxy_later" in vars(other):
            return (self._proxy_target(), self._proxy_below()) == (
                other._proxy_target(),
                other._proxy_below(),
            )
        mine, others = self._proxy_remote.server, other._proxy_remote.server
        return (self._proxy_path, mine) == (other._proxy_path, others)

    def _proxy_below(self) -> Path:
        """The path of what is in what a proxy of the same target stands for; empty for that itself."""
        path = vars(self).get("_proxy_path", ())
        return path if "_proxy_later" in vars(self) or path != self._proxy_remote.root else ()

    def __hash__(self) -> int:
        # Not of the first step, known once a proxy is connected: one that arrives in a set is not yet.
        return hash(vars(self).get("_proxy_path", ())[1:])

    # Sending it, and using it where it arrived

    def _proxy_sent(self, value: object) -> object:
        return named(self._proxy_remote.server, value)

    def _proxy_target(self) -> str:
        later: Later | None = vars(self).get("_proxy_later")
        return self._proxy_remote.target if later is None else later.target

    def _proxy_asks_with(self, protocol: Protocol) -> None:
        """Connect with that, if it is not connected yet."""
        later: Later | None = vars(self).get("_proxy_later")
        if later is not None:
            later.protocol = protocol

    def _proxy_connect(self, later: Later) -> None:
        with later.lock:
            if later.closed:
                raise AgentClosed(f"the proxy of {later.target} was closed")
            if "_proxy_later" in vars(self):
                call = current()
                held = later.connect(
                    later.target, later.protocol or (None if call is None else call.protocol)
                )
                vars(self).update({**held, **vars(self)})
                del vars(self)["_proxy_later"]


def named(server: str, value: object) -> object:
    """What is sent to a server for a value: what the server holds itself is named."""
    if isinstance(value, Substituted):
        value = value._proxy_sent()  # pyright: ignore[reportPrivateUsage]
    if not isinstance(value, RemoteReference):
        is_class_of_values(type(value))  # which classes of data are pickled by their forms is learnt so
        return value
    if "_proxy_later" in vars(value):
        return value
    of: Any = value
    own = of._proxy_remote.server == server
    return Reference(server, of._proxy_path, of._proxy_leases) if own else value


def _is_completed() -> bool:
    """Whether a completer asks for the attribute: the description is enough for it."""
    caller = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    callers = [caller] if caller.f_back is None else [caller, caller.f_back]  # `Member` is between, perhaps
    return any(each.f_globals.get("__name__", "").partition(".")[0] in _COMPLETERS for each in callers)


ITERATE = next(row for row in OPERATIONS if row.name == "__iter__")
"""Row of the table of operations."""
