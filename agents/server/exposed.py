"""Exposed object: what a server serves, and all that messages of proxies do with it.

::

    action        reply                                      role       done with
    get           return | reference                         observer   what a path leads to; a list or dict
                                                                        that is kept there is a reference
    getattr       return | reference                         observer   likewise; values are always copied
    setattr       return                                     operator   a member or item
    exec          return | reference | items | stream |      operator   a method, or an operation
                  future_register
    next          items                                      observer   a stream, by whoever opened it
    inspect       return                                     observer   names of members
    describe      return                                     observer   what there is, in text
    instantiate   return                                     admin      a class that the server allows

Values (`pzc.protocol.values`) are copied, everything else is answered as a reference: a path where there is
one, else a handle. Whoever cannot read references gets the copy of a value, or a refusal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, cast

from ...protocol import paths
from ...protocol.contents import PS, RETURN, SEQUENCES, shown
from ...protocol.errors import MemberRefused, Refused, RemoteProtocolError
from ...protocol.keyring import Role
from ...protocol.paths import Handle, Path, Step
from ...protocol.values import PLAIN, TRAVELLING, first_reference, is_class_of_values
from .. import operations
from ..operations import CALL, EMIT, GET, OPERATIONS, calls_of
from ..references import Reference, replaced
from . import members
from .answers import Answers, Message, by_value
from .call import NO_TABLE, Call
from .coroutines import Coroutines
from .descriptions import about, description
from .marks import NOTHING, Member, marks_of
from .replies import authorize
from .stop import Stop
from .streams import each_of, listed
from .tree import Tree, path_of, put_item

_NEEDS = {"setattr": Role.OPERATOR, "instantiate": Role.ADMIN}
_READING = ("get", "getattr", "describe", "inspect", "next")
NEEDS_AT_MOST = {**dict.fromkeys((*_READING, "batch"), Role.OBSERVER), **_NEEDS, "exec": Role.OPERATOR}
"""By action the highest role that `ExposedObject.role` may give."""

_NO_KWARGS: dict[str, Any] = {}
_NONE = PS, RETURN, None


class ExposedObject:
    """Does what messages of proxies ask for, in the turn of each.

    Args:
        tree: what is served.
        agent_id: of the server, whose own references are replaced by what they stand for.
        coroutines: runs ``async def`` methods.
        answers: tells what calls gave.
        instantiate: makes the served object out of the options of a message.
        return_as_remote: whether a member is held remotely instead of being sent by value; None for the rule.
    """

    def __init__(
        self,
        tree: Tree,
        agent_id: str,
        coroutines: Coroutines,
        answers: Answers,
        instantiate: Callable[[dict[str, Any]], object],
        return_as_remote: Callable[[object], bool] | None = None,
    ) -> None:
        self.tree = tree
        self.member = tree.member
        self._agent_id = agent_id
        self._coroutines = coroutines
        self._answers = answers
        self._instantiate = instantiate
        self._is_remote = return_as_remote
        self._actions: Mapping[str, Callable[[Call, dict[str, Any], Member], Message]] = {
            "exec": self._execute,
            "get": self._get,
            "getattr": partial(self._get, copied=True),
            "setattr": self._set,
            "next": self._next,
            "inspect": self._inspect,
            "describe": self._describe,
            "instantiate": self._make,
        }

    def unnamed(self, action: str, options: dict[str, Any]) -> Member:
        """What a message is about that names nothing: that of its stream, or of the first call of its batch.

        Raises:
            RemoteProtocolError: for a batch that is none.
        """
        if action == "next":
            return self._answers.streams.member(options.get("id"))
        for _, given in calls_of(options)[:1]:
            return NOTHING._replace(lane=self.member(given).lane)
        return NOTHING

    def role(self, action: str, options: dict[str, Any]) -> Role:
        """The role that a message takes; see the table. Each call of a batch is judged in its own turn.

        What is not known before the turn of a call is judged then, by `act`.
        """
        if action == "exec":
            return Role.OBSERVER if self._may_read(options) else Role.OPERATOR
        return _NEEDS.get(action, Role.OBSERVER)

    def _may_read(self, options: dict[str, Any]) -> bool:
        method = method_of(options)
        if method == CALL:
            member = self.member(options)
            return member.reading or not member.sure
        operation = OPERATIONS.get(method)
        return operation is not None and operation.reads

    def only_reads(self, action: str, options: dict[str, Any]) -> bool:
        """True for what others may do while somebody holds the lock, where the server says so."""
        if action == "next":
            return self.unnamed(action, options).reading
        if action != "exec":
            return action in _READING
        return self.member(options).reading or (method_of(options) != CALL and self._may_read(options))

    def only_looks(self, action: str, options: dict[str, Any], member: Member) -> bool:
        """True for what takes no turn and passes the lock: it runs nothing of an object, and tells no value.

        Args:
            action: of a message: one that describes, or ``exec`` of ``[]``, whose item stays here.
            options: of the action.
            member: what they name.
        """
        path, item = member.path, action == "exec" and method_of(options) == GET
        if path is None or not (item or action in ("describe", "inspect")):
            return False
        if item:
            args = options.get("args", ())
            step = paths.step_of(args[0]) if type(args) in SEQUENCES and len(args) == 1 else None
            if step is None:
                return False
            path = *path, step
        thing = self.tree.still(path)
        if thing is members.MISSING or type(thing) in TRAVELLING:
            return False
        return not item or first_reference(thing) is thing

    def act(self, call: Call, action: str, options: dict[str, Any], member: Member) -> Message:
        """Do what a message asks for; the content of its answer.

        Args:
            call: the call.
            action: of the message.
            options: of the action.
            member: what `member` said of them, however long ago: who may call it is judged again here
                where that could have changed.

        Raises:
            MemberRefused: for what is not there, or not served.
            BaseException: whatever the object raised.
        """
        if options is NO_TABLE:
            raise MemberRefused(f"options must be a mapping, not {shown(call.content[2], 60)}")
        do = self._actions.get(action)
        if do is None:
            raise RemoteProtocolError(f"unknown action {shown(action, 60)}")
        return do(call, options, member)

    def _whole(self, options: dict[str, Any], member: Member) -> Path:
        path = self._seen(options, member)
        if member.narrowed:
            raise MemberRefused(f"{member.text or 'the whole object'!r} is not exposed by this server")
        return path

    def _seen(self, options: dict[str, Any], member: Member) -> Path:
        if member.path is None:  # say why
            member = self.tree.look(path_of(options))
        return member.path or ()

    def _find(self, call: Call, path: Path, start: object = members.MISSING) -> Any:
        return self.tree.find(path, self._held, call, start)

    def _find_inside(self, call: Call, path: Path, member: Member) -> Any:
        """What is called: found through what stays here alone, never through what goes by value."""
        owner: Any = None
        thing = self.tree.root
        for step in path[:-1]:
            owner, thing = thing, self._find(call, (step,), thing)
            kind = thing if isinstance(thing, type) and is_class_of_values(thing) else type(thing)
            if kind is thing or not (isinstance(step, Handle) or self._stays(owner, step, thing)):
                raise MemberRefused(
                    f"{member.text!r} is not called here: {kind.__name__} goes by value. Fetch the value "
                    "first, and call that of your copy"
                )
        return self._find(call, path[-1:], thing)

    def _held(self, call: Call, handle: Handle) -> Any:
        return self._answers.handles.find(handle.id, call.caller.identity)

    def _given(self, call: Call, content: Any) -> Any:
        def find(reference: Reference) -> object:
            if reference.agent_id != self._agent_id:
                raise Refused(
                    "the reference is to an object of another server, or of this one before its restart"
                )
            named = {"on": paths.to_wire(reference.path)}
            self._whole(named, self.member(named))
            return self._find(call, reference.path)

        return replaced(content, find)

    def _execute(self, call: Call, options: dict[str, Any], member: Member) -> Message:
        args, kwargs = options.get("args", ()), options.get("kwargs", _NO_KWARGS)
        if type(args) not in SEQUENCES or type(kwargs) is not dict:  # a range would be unfolded
            raise TypeError(f"a call has a list and a table of arguments, not {shown((args, kwargs))}")
        if "refs" in options:
            args, kwargs = self._given(call, args), self._given(call, kwargs)
        method = options.get("method", CALL)
        if type(method) is not str or method != CALL:
            return self._operate(call, options, member, method_of(options), args, kwargs)
        settled, path = member.settled, member.path
        if not settled or path is None:
            path = self._whole(options, member)
        thing = self._find(call, path) if len(path) < 2 else self._find_inside(call, path, member)
        if not callable(thing):
            raise members.not_allowed(member.text, thing, CALL)
        if not settled and (not member.sure or (member.reading and not self.tree.given(member))):
            member = self._judge(call, member, path, thing)
        if member.on_cancel is not None and path and isinstance(path[-1], str):
            with self._stop(call, member, path, member.on_cancel):
                return self._answers.of(call, thing(*args, **kwargs), member)
        result = thing(*args, **kwargs)
        return (PS, RETURN, result) if type(result) in PLAIN else self._answers.of(call, result, member)

    def _stop(self, call: Call, member: Member, path: Path, name: str) -> Stop:
        owner = self._find(call, path[:-1])
        method = getattr(owner, name, None)
        if not callable(method):  # what cannot be stopped does not begin
            raise members.missing(owner, name, f", to be called when {member.text!r} was cancelled")
        return Stop(call, method, self.tree.marks((*path[:-1], name), method).urgent, self._coroutines)

    def _judge(self, call: Call, member: Member, path: Path, thing: object) -> Member:
        """Judge by the marks of what was found in its turn who may call it; the member with these."""
        marks = marks_of(thing)
        if not marks.reading:
            authorize(call.caller.key, Role.OPERATOR, member.text)
        if not member.sure:
            call.member = member = member._replace(on_cancel=marks.on_cancel)
            if marks.urgent:
                self.tree.meet_urgent(path)
        return member

    def _operate(
        self, call: Call, options: dict[str, Any], member: Member, method: str, args: Any, kwargs: Any
    ) -> Message:
        path = self._seen(options, member)
        if method in operations.KEYED and args:
            operations.check_key(args[0])
        if member.narrowed:
            if method == GET and args and (step := paths.step_of(args[0])) is not None:
                item = {"on": (*path, step)}
                return self._get(call, item, self.member(item))
            self._whole(options, member)
        thing = self._find(call, path)
        if method == EMIT and members.is_signal(thing):
            thing.emit(*args, **kwargs)
            return _NONE
        operation = OPERATIONS.get(method)
        if operation is None or not operations.fits(operation, thing):
            raise members.not_allowed(member.text, thing, method)
        kind = cast("type[Any]", type(thing))
        known = not operation.of or isinstance(thing, operation.of)
        by_item = method == operations.ITER and call.can_refer and not hasattr(kind, "__len__")
        if not operations.only_looks(method, thing, by_item):
            authorize(call.caller.key, Role.OPERATOR, member.text)
        if by_item:
            looks = not hasattr(kind, "__next__")
            return self._answers.of(call, each_of(thing), member._replace(reading=looks))
        result = operation.do(thing, *args, **kwargs) if known else getattr(thing, method)(*args, **kwargs)
        if inspect.iscoroutine(result):
            result = self._coroutines.run(result)
        if type(result) in PLAIN:
            return PS, RETURN, result
        if not call.can_refer:
            return self._answers.of(call, result, member)
        return self._operated(call, method, thing, result, member, args)

    def _operated(
        self, call: Call, method: object, thing: object, result: Any, member: Member, args: Any
    ) -> Message:
        path = cast(Path, member.path)
        if result is thing and method == operations.ENTER:
            return PS, "reference", about(result, path)
        if method == GET and (step := paths.step_of(args[0])) is not None:
            return self._answers.of(call, result, member, (*path, step))
        if method in _LISTING and first_reference(result) is not None and type(result) is list:
            here = path if members.items_of(thing) == "sequence" and method == operations.ITER else None
            items = self._answers.items(call, cast("list[Any]", result), member, here)
            return PS, "items", listed(items, done=True)
        return self._answers.of(call, result, member)

    def _get(self, call: Call, options: dict[str, Any], member: Member, copied: bool = False) -> Message:
        copied = copied or "force_as_object" in options
        path = self._seen(options, member)
        owner = self._find(call, path[:-1])
        value = self._find(call, path[-1:], owner)
        if type(value) in PLAIN and not member.narrowed:
            return PS, RETURN, value
        if call.can_refer:
            if member.narrowed and first_reference(value) is None:
                self._whole(options, member)
            if self._stays(owner, path[-1] if path else None, value, copied):
                return PS, "reference", about(value, path)
            return PS, RETURN, by_value(value, member.text, read=True)
        if member.narrowed:
            self._whole(options, member)
        kind = members.kind_of(value)
        if not copied and (kind != "value" if self._is_remote is None else self._is_remote(value)):
            return PS, "remote", None
        if kind in (
            "method",
            "signal",
        ):  # a pickled method carries the whole object, private attributes included
            raise MemberRefused(f"{member.text!r} is a {kind} and is not sent by value")
        if not call.caller.native:
            return PS, RETURN, value
        return PS, RETURN, by_value(value, member.text, read=True)

    def _stays(self, owner: Any, step: Step | None, value: Any, copied: bool = False) -> bool:
        """Whether a member is a reference for whoever can read one."""
        if self._is_remote is not None and members.kind_of(value) not in ("method", "signal"):
            return not copied and self._is_remote(value)
        if first_reference(value) is not None:
            return True
        if copied or not isinstance(step, str) or members.kind_of(value) != "items":
            return False
        return not members.is_computed(owner, step)

    def _set(self, call: Call, options: dict[str, Any], member: Member) -> Message:
        path = self._whole(options, member)
        value = options.get("value")
        if "refs" in options:
            value = self._given(call, value)
        if not path or isinstance(path[-1], Handle):
            raise MemberRefused("what is served cannot be replaced")
        owner, step = self._find(call, path[:-1]), path[-1]
        if isinstance(step, str):
            members.put(owner, step, value)
        else:
            put_item(owner, step, value)
        return _NONE

    def _next(self, call: Call, options: dict[str, Any], member: Member) -> Message:
        return PS, "items", self._answers.streams.advance(options.get("id"), call)

    def _inspect(self, call: Call, options: dict[str, Any], member: Member) -> Message:
        """Names to be held remotely, and names always sent by value."""
        root, is_remote = self.tree.root, self._is_remote
        found = members.kinds(root, self.tree.names(root, ()), members.kind_of)
        if is_remote is not None:
            held = [name for name, kind in found.items() if kind in ("items", "value")]
            found |= {name: "items" if is_remote(getattr(root, name)) else "value" for name in held}
        remote = {name for name, kind in found.items() if kind not in ("property", "value")}
        return PS, RETURN, (remote, set[str]())

    def _describe(self, call: Call, options: dict[str, Any], member: Member) -> Message:
        path = self._seen(options, member)
        thing = self._find(call, path)
        among = self.tree.names(thing, path)
        self.tree.meet(thing, path, among)
        return PS, RETURN, description(thing, path, among, self.tree.declared, self._is_remote)

    def _make(self, call: Call, options: dict[str, Any], member: Member) -> Message:
        self._instantiate(options)
        return _NONE


def method_of(options: dict[str, Any]) -> str:
    """Name of the operation that ``exec`` asks for; empty for what is none."""
    method = options.get("method", CALL)
    return method if isinstance(method, str) else ""


_LISTING: Collection[str] = frozenset({operations.ITER, "values", "items"})
