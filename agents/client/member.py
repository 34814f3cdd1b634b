"""Member: one method, signal, mapping or sequence of something remote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...delivery.policies import Policy
from ...protocol.errors import MemberRefused
from ...protocol.paths import Path, text
from ...protocol.shown import hint
from ...protocol.values import PLAIN
from ..compat.pizco_client import instead
from ..notifications.subscription import Subscription
from ..signals import Slot
from .described import Entry
from .operations import OPERATIONS, made_of, offered, special
from .pending import Pending
from .reference import HELD, RemoteReference, explained
from .remote import RemoteObject
from .sent import filled, keeps_of, not_called, place_of
from .slots import Arriving
from .terms import IDEMPOTENT, USUAL, options

_ALWAYS = ("__doc__", "__name__", "__qualname__", "__signature__")


@explained
@made_of(row for row in OPERATIONS if not special(row.name))
class Member(RemoteReference):
    """One member of something remote; get it from a proxy or reference, never directly.

    Call it (method), index and iterate it (mapping, sequence), or connect to it (signal). Every operation
    raises what the remote member raised, or the errors of `Agent.request`.

    Args:
        remote: what all references of a proxy share.
        path: from what is served.
        about: what was told of it.
        leases: what keeps it at the server.
    """

    def __init__(self, remote: RemoteObject, path: Path, about: Entry, leases: object = None) -> None:
        RemoteReference.__init__(self, remote, path, about, leases)
        own, name = vars(self), str(path[-1]) if path else ""
        known = remote.known(path[:-1])
        own["_proxy_terms"] = IDEMPOTENT if about.get("idempotent") else USUAL
        own["_proxy_call"] = {**place_of(path), "method": "__call__"}
        own["__name__"], own["__qualname__"] = name, f"{(known and known.type) or 'remote'}.{name}"

    def __get__(self, instance: object, owner: object = None) -> Member:
        """Itself: help() shows the signature of what has this method, as of every routine."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._proxy_has_members():
            return super().__getattr__(name)
        usual = [each for each in offered(self._proxy_kind()) if not each.startswith("_")]
        near = hint(name, usual, otherwise="it has")
        raise MemberRefused(f"{self.__name__!r} is a {self._proxy_kind()}, which has no {name!r}; {near}")

    def __setattr__(self, name: str, value: Any) -> None:
        if not self._proxy_has_members():
            raise MemberRefused(f"{name!r} cannot be set: {self.__name__} is a {self._proxy_kind()}")
        super().__setattr__(name, value)

    def _proxy_has_members(self) -> bool:
        return self._proxy_kind() in ("items", "remote")

    def __dir__(self) -> list[str]:
        return sorted({*_ALWAYS, *offered(self._proxy_kind())})

    def __bool__(self) -> bool:
        return self._proxy_kind() != "items" or len(self) > 0

    def __repr__(self) -> str:
        signature = self._proxy_signature() if self._proxy_kind() == "method" else ""
        return f"<remote {self._proxy_kind()} {text(self._proxy_path)}{signature} of {self._proxy_target()}>"

    def _proxy_kind(self) -> str:
        return str(self._proxy_told.get("kind") or "member")

    def _proxy_entry(self) -> Entry:
        """What is told of it; asked for when it came as a result."""
        told = self._proxy_told
        if self._proxy_kind() != "method" or "signature" in told or "doc" in told:
            return told
        about = self._proxy_about()
        return {**told, "doc": about.doc, "signature": about.signature}

    def _proxy_documentation(self) -> str:
        # Never empty: help() would describe this class instead of the remote method.
        return str(self._proxy_entry().get("doc") or "") or "(The server has no documentation of it.)"

    def _proxy_signature(self) -> str:
        return str(self._proxy_entry().get("signature") or "")

    # Ways of the table of operations

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:  # noqa: D102 - the table has it
        # Most calls go here, so it is written out: no function more than needed.
        request: dict[str, Any] = self._proxy_call.copy()
        plain = True
        if args:
            request["args"] = args
            plain = PLAIN.issuperset(map(type, args))
        if kwargs:
            request["kwargs"] = kwargs
            plain = plain and PLAIN.issuperset(map(type, kwargs.values()))
        if not plain:
            if self._proxy_kind() == "signal":  # which the server would say, if it could read a slot
                raise not_called(text(self._proxy_path))
            filled(request, self._proxy_sent)
        return self._proxy_remote.request("exec", request, self._proxy_terms)

    def _do_future(self, /, *args: Any, **kwargs: Any) -> Pending:
        request = self._proxy_options("__call__", args, kwargs)
        return self._proxy_remote.request_later("exec", request, self._proxy_terms)

    def _do_oneway(self, /, *args: Any, **kwargs: Any) -> None:
        request = self._proxy_options("__call__", args, kwargs)
        self._proxy_remote.need("take a one-way call")
        keeps = [self._proxy_leases, *keeps_of(request)]
        self._proxy_remote.request("exec", request, self._proxy_terms._replace(oneway=True, keeps=keeps))

    def _do_options(self, **wanted: Any) -> Member:
        remote = self._proxy_remote
        twin = Member(remote, self._proxy_path, self._proxy_told, self._proxy_leases)
        vars(twin).update(
            __qualname__=self.__qualname__, _proxy_terms=options(self._proxy_terms, remote, **wanted)
        )
        return twin

    def _do_connect(self, slot: Slot, policy: Policy | None = None) -> None:
        self._proxy_remote.connect(self._proxy_path, slot, policy)

    def _do_disconnect(self, slot: Slot | None = None) -> None:
        self._proxy_remote.disconnect(text(self._proxy_path), slot)

    def __iter__(self) -> Iterator[Any]:
        """What it holds; of a signal its notifications from now on, with default policy."""
        if self._proxy_kind() == "signal":
            return Arriving(self._proxy_remote.agent.loop, self._do_subscribe())
        return super().__iter__()

    def _do_emit(self, /, *values: Any, **named: Any) -> None:
        instead(self._proxy_remote.peer, "emit")
        self._proxy_exec("emit", values, named)

    def _do_subscribe(self, policy: Policy | None = None) -> Subscription:
        return self._proxy_remote.subscribe(self._proxy_path, policy)


def refer(remote: RemoteObject, path: Path, about: Entry, leases: object) -> RemoteReference:
    """What stands here for something at a server."""
    made = Member if about.get("kind") in HELD else RemoteReference
    return made(remote, path, about, leases)
