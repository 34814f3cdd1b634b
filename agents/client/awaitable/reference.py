"""RemoteReference of the awaitable face: a path into a served object; nothing is asked before it is awaited.

The face stands on the table of operations (`pzc.agents.client.operations`). Before a proxy is connected
nobody knows what a path leads to, so a name of that table means the operation, unless what stands before it
is known to be a reference with a member of that name when it is awaited.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncIterator, Generator
from functools import partial
from operator import methodcaller
from typing import Any

from ....delivery.policies import Policy
from ....protocol.errors import ConfigError, MemberRefused
from ....protocol.paths import Handle, Path, Step, key_of, step_of, text
from ...compat.pizco_client import instead
from ...notifications.subscription import Subscription
from ...signals import Slot
from ...stub import signature_of
from .. import interrupts, terms
from .. import reference as synchronous
from ..abort import AbortSignal
from ..answers import REMOTE
from ..answers import Items as Answered
from ..operations import AWAITED, Operation, made_of, offered, special
from ..pending import PendingCall
from ..remote import RemoteObject
from ..sent import Substituted, call_of, filled, not_called, place_of
from ..streams import RemoteStream
from .iteration import Call, Items, Notifications
from .link import Link
from .slots import end_own, in_loop
from .threads import in_thread, outcome


@synchronous.explained
@made_of((row for name, row in AWAITED.items() if special(name) and name != "__getitem__"), awaited=True)
class RemoteReference(Substituted):
    """Something that a server holds, or one member of it; get it from a proxy.

    ``await ref`` reads it, ``await ref.set(v)`` sets it, ``await ref(...)`` calls it, ``await ref[k]`` reads
    an item; ``ref.attr`` and ``ref[k]`` are references as well. Besides there are ``options``, ``oneway``,
    ``set_item``, ``delete_item``, ``length``, ``contains``, ``keys``, ``values``, ``items``, ``get``,
    ``copy``, ``emit``, ``connect``, ``disconnect`` and ``subscribe``, and ``async for`` over what it holds,
    or what a signal tells. Every await raises what happened at the server, or the errors of `Proxy`. A task
    that is cancelled while it awaits a call cancels the call at the server.

    Args:
        link: the connection of the proxy.
        path: from the object of the proxy, or from a handle.
        parent: through which it was reached, when that is no proxy.
    """

    _terms = terms.USUAL
    _leases: object = None

    def __init__(self, link: Link, path: Path, parent: RemoteReference | None = None) -> None:
        vars(self).update(_link=link, _path=path, _parent=parent)
        if parent is not None:
            vars(self)["_leases"] = parent._leases
        if path:
            vars(self)["__name__"] = str(path[-1])

    # Paths

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__":
            return signature_of(self._entry().get("signature") or "")
        if name.startswith("_"):
            raise MemberRefused(f"{name!r} is private: members that begin with '_' are never served")
        return self._child(name)

    def _child(self, step: Step) -> RemoteReference:
        return RemoteReference(self._link, (*self._path, step), self)

    def __getitem__(self, key: Any) -> Any:
        step = step_of(key)
        if step is None:  # no path leads there
            return Call(self._do_exec(AWAITED["__getitem__"], (key,)), f"an item of {self!r}")
        return self._child(step)

    def __setattr__(self, name: str, value: Any) -> None:
        raise MemberRefused(f"{name!r} cannot be assigned here: await proxy.{name}.set(value)")

    __iter__ = None  # else Python would ask for the items 0, 1, 2, ... and never wait for one
    __contains__ = None

    def _place(self, remote: RemoteObject) -> Path:
        path = self._path
        return path if path and isinstance(path[0], Handle) else (*remote.root, *path)

    def _proxy_sent(self) -> object:
        """That of the other face, which a server can use without an event loop."""
        link, remote = self._link, self._link.remote
        if not self._path:
            return link.proxy if remote is not None else link.later()
        if remote is None:
            raise ConfigError(f"{self!r} cannot be sent yet: await the proxy of {link.target} first")
        return synchronous.RemoteReference(remote, self._place(remote), {}, self._leases)

    # What it tells of itself

    def _entry(self) -> dict[str, Any]:
        """What the table that it stands in says, as far as that is known."""
        remote, path = self._link.remote, self._path
        if remote is None or not path or not isinstance(path[-1], str):
            return {}
        return remote.entry(self._place(remote)) or {}

    def _proxy_documentation(self) -> str | None:
        return str(self._entry().get("doc") or "") or None

    def __dir__(self) -> list[str]:
        entry = self._entry() or self._link.entry(self._path)
        kind = entry.get("kind")
        members = self._link.members(self._path) if kind == "reference" else ()
        return sorted({"__doc__", "__name__", *members, *(() if members else offered(kind, awaited=True))})

    def __repr__(self) -> str:
        entry = self._entry()
        kind, signature = entry.get("kind", "member"), entry.get("signature", "")
        return f"<awaitable remote {kind} {text(self._path)}{signature} of {self._link.target}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RemoteReference):
            return NotImplemented
        return (self._link.target, self._path) == (other._link.target, other._path)

    def __hash__(self) -> int:
        return hash(self._path)

    # Asking

    def __await__(self) -> Generator[Any, Any, Any]:
        """The value; for what is not sent by value, a reference to it."""
        return self._get().__await__()

    async def _get(self) -> Any:
        remote = self._link.remote or await self._link.connect()
        path = self._place(remote)
        if path and isinstance(path[-1], tuple):
            options = call_of(path[:-1], "__getitem__", (key_of(path[-1]),), {})
            return await self._ask(remote, "exec", options)
        return await self._ask(remote, "get", place_of(path))

    async def _ask(
        self, remote: RemoteObject, action: str, options: dict[str, Any], idempotent: bool | None = False
    ) -> Any:
        filled(options, partial(synchronous.named, remote.server))
        if idempotent if self._terms.idempotent is None else self._terms.idempotent:
            result = await self._ask_again(remote, action, options)
        else:
            try:
                result = await outcome(remote.request_later(action, options, self._terms))
            except CancelledError as error:
                goes_on = interrupts.outcome(remote.peer, action, options, remote.stop_of(options))
                raise interrupts.interrupted(error, goes_on) from None
        return self if result is REMOTE else self._arrived(remote, result)

    async def _ask_again(self, remote: RemoteObject, action: str, options: dict[str, Any]) -> Any:
        """As `RemoteObject.request`, which waits, and asks again when the peer is lost, in a thread."""
        abort, terms = AbortSignal(), self._terms._replace(idempotent=True)
        try:
            result = await in_thread(partial(remote.request, action, options, terms, abort))
        except BaseException:
            abort.abort("nobody awaits the call any more")
            raise
        return await outcome(result) if isinstance(result, PendingCall) else result

    def _arrived(self, remote: RemoteObject, result: Any) -> Any:
        if isinstance(result, RemoteStream):
            return Items(result, partial(self._arrived, remote))
        if isinstance(result, Answered):
            return [self._arrived(remote, each) for each in result.items]
        if not isinstance(result, synchronous.RemoteReference) or "_proxy_later" in vars(result):
            return result
        path: Path = vars(result)["_proxy_path"]
        inside = path[: len(remote.root)] == remote.root and not (path and isinstance(path[0], Handle))
        found = RemoteReference(self._link, path[len(remote.root) :] if inside else path, self)
        vars(found)["_leases"] = vars(result)["_proxy_leases"]
        return found

    # Ways of the table of operations

    def _do_call(self, /, *args: Any, **kwargs: Any) -> Any:
        row, parent = self._operation(), self._parent
        if row is not None and parent is not None and row.handler == "options":
            return parent._do_options(*args, **kwargs)
        return Call(self._called(row, args, kwargs), f"{text(self._path)} of {self._link.target}")

    def _operation(self) -> Operation | None:
        """The operation that its name means, if any."""
        last = self._path[-1] if self._path else ()
        row = AWAITED.get(last) if isinstance(last, str) and self._parent is not None else None
        return None if row is None or special(row.awaited) else row

    async def _called(self, row: Operation | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        remote, parent = self._link.remote or await self._link.connect(), self._parent
        if row is None or parent is None or await self._is_member(remote):
            if args and self._entry().get("kind") == "signal":
                raise not_called(text(self._place(remote)))
            options = call_of(self._place(remote), "__call__", args, kwargs)
            return await self._ask(remote, "exec", options, await self._is_idempotent(remote))
        if row.handler == "exec":
            return await parent._do_exec(row, row.pattern(parent, *args, **kwargs))
        return await getattr(parent, f"_do_{row.handler}")(*args, **kwargs)

    async def _is_member(self, remote: RemoteObject) -> bool:
        """Whether what stands before its name is a reference with such a member."""
        path = self._place(remote)
        before = path[:-1]
        if isinstance(before[-1], str):
            about = remote.known(before[:-1]) or await in_thread(partial(remote.about, before[:-1]))
            if about.members.get(before[-1], {}).get("kind") != "reference":
                return False
        about = remote.known(before) or await in_thread(partial(remote.about, before))
        return path[-1] in about.members

    async def _is_idempotent(self, remote: RemoteObject) -> bool:
        """Whether its server declares that it may be called again."""
        path = self._place(remote)
        if self._terms.idempotent is not None or not path or not remote.peer.native:
            return False
        entry = remote.entry(path)
        if entry is None:
            about = await in_thread(partial(remote.about, path[:-1]))
            entry = about.members.get(path[-1]) if isinstance(path[-1], str) else None
        return bool(entry and entry.get("idempotent"))

    async def _exec(
        self, remote: RemoteObject, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return await self._ask(remote, "exec", call_of(self._place(remote), method, args, kwargs))

    async def _do_exec(self, row: Operation, args: tuple[Any, ...]) -> Any:
        remote = self._link.remote or await self._link.connect()
        if (do := instead(remote.peer, row.name)) is not None:
            copied = {**place_of(self._place(remote)), "force_as_object": True}
            return do(await self._ask(remote, "get", copied), *args)
        return await self._exec(remote, row.name, args, {})

    def _do_options(self, **wanted: Any) -> RemoteReference:
        # Awaited calls share one socket: the transport is judged, and matters only to what runs in a thread.
        twin = RemoteReference(self._link, self._path, self._parent)
        told = terms.options(self._terms, self._link.remote, **wanted)
        vars(twin).update(_terms=told, _leases=self._leases)
        return twin

    async def _do_oneway(self, /, *args: Any, **kwargs: Any) -> None:
        remote = await self._link.connect()
        options = call_of(self._place(remote), "__call__", args, kwargs)
        filled(options, partial(synchronous.named, remote.server))
        remote.need("take a one-way call")
        await outcome(remote.request_later("exec", options, self._terms._replace(oneway=True)))

    async def _do_set(self, value: Any) -> None:
        remote = await self._link.connect()
        path = self._place(remote)
        if path and isinstance(path[-1], tuple):
            parent = RemoteReference(self._link, self._path[:-1], self._parent)
            await parent._do_exec(AWAITED["set_item"], (key_of(path[-1]), value))
        else:
            await self._ask(remote, "setattr", {**place_of(path), "value": value})

    async def _do_subscribe(self, policy: Policy | None = None) -> Subscription:
        path = self._place(await self._link.connect())
        return await in_thread(partial(self._link.subscribe, path, policy), methodcaller("close"))

    async def _do_emit(self, /, *values: Any, **named: Any) -> None:
        remote = self._link.remote or await self._link.connect()
        instead(remote.peer, "emit")
        await self._exec(remote, "emit", values, named)

    def __aiter__(self) -> AsyncIterator[Any]:
        """What it holds; of a signal its notifications from the first wait on, with default policy."""
        return Items(Call(self._iterated(), f"items of {self!r}"))

    async def _iterated(self) -> object:
        remote = self._link.remote or await self._link.connect()
        path = self._place(remote)
        if await in_thread(partial(remote.may_be_signal, path)):
            return Notifications(self._link, path)
        try:
            found = await self._do_exec(synchronous.ITERATE, ())
        except MemberRefused:
            await in_thread(partial(remote.find_signal, path))  # which says what it is
            raise
        if isinstance(found, RemoteReference):
            return [await found[at] for at in range(await found.length())]
        return found

    async def _do_connect(self, slot: Slot, policy: Policy | None = None) -> None:
        remote = await self._link.connect()
        path = self._place(remote)
        given = in_loop(slot, remote, text(path))
        await in_thread(partial(remote.connect, path, given, policy), lambda undo: undo())

    async def _do_disconnect(self, slot: Slot | None = None) -> None:
        remote = await self._link.connect()
        name = text(self._place(remote))
        given = None if slot is None else in_loop(slot, remote, name)
        end_own(remote, name, given)
        await in_thread(partial(remote.disconnect, name, given))
