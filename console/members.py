"""``pzc info``, ``get``, ``set``, ``call`` and ``ping``: one agent, asked once."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from inspect import signature
from itertools import islice
from typing import Any

from ..agents import (
    About,
    PendingCall,
    Proxy,
    RemoteObject,
    RemoteReference,
    RemoteStream,
    close,
    declared,
    discover,
    remote_of,
)
from ..discovery.records import Entry
from ..discovery.site import parse_peers
from ..protocol.contents import as_list, as_table
from ..protocol.errors import CallTimeout, MemberRefused, RemoteProtocolError
from ..protocol.paths import Path, key_of, parse, text
from ..protocol.shown import plain
from ..transport.peer import Peer
from ..transport.settings import load
from .ls import names_of
from .options import Commands, add_agent, add_command, add_json, add_timeout, positive
from .output import folded, write, write_json, write_sentence, write_told, write_value
from .reaching import leased_agent, meet, proxy_of
from .tables import write_table
from .targets import UsageError, parse_arguments, parse_value, split_member
from .values import to_line

DEPTH, MOST_SEARCHED = 2, 100
"""Steps to the objects whose declared members `pzc info` shows, and how many of these objects it asks for."""

PIPED = 100
"""Characters of a line of `pzc info` where it goes to no terminal."""

MEMBERS = ("member", "kind", "signature", "meaning")

_NUMBERS_AND_TEXTS = {"int", "float", "complex", "str"}

_OF_THE_HANDSHAKE = ("pzc", "challenge", "nonce", "time_ms")


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    info = add_command(
        commands, "info", run_info, "print what an agent says of itself and of its members", "pzc info psu"
    )
    get = add_command(commands, "get", run_get, "print an attribute", "pzc get dac.ch1.unit")
    setter = add_command(commands, "set", run_set, "set an attribute", "pzc set psu.voltage 3.3")
    call = add_command(
        commands, "call", run_call, "call a method and print what it returns",
        "pzc call psu.ramp 5.0 step=0.5\n  pzc call psu.write \"'VOLT=3'\"   (quoted: text, no keyword)",
    )  # fmt: skip
    ping = add_command(commands, "ping", run_ping, "measure the round trip", "pzc ping psu --count 10")
    for parser in (info, ping):
        add_agent(parser)
    for parser, member in ((get, "ATTRIBUTE"), (setter, "ATTRIBUTE"), (call, "METHOD")):
        parser.add_argument("target", metavar=f"N.{member}", help="agent and member")
    setter.add_argument("value", help="Python literal, else text")
    call.add_argument("arguments", nargs="*", metavar="[K=]V", help="Python literals, else text")
    ping.add_argument("-n", "--count", type=positive, default=5, metavar="N", help="round trips; default 5")
    for parser in (info, get, setter, call, ping):
        add_timeout(parser)
    for parser in (info, get, call, ping):
        add_json(parser)


ASK_NAMES = 0.2
"""Seconds within which everybody answers who is asked for a name."""


def known_names(text: str, sign: str = ".") -> list[str]:
    """Names of agents with which ``text`` may begin; asks others only when it is not clear otherwise.

    Args:
        text: an agent and something of it.
        sign: what stands between them: ``.`` before a member, ``/`` before a topic.
    """
    settings = load()
    static = list(parse_peers(settings["PZC_PEERS"]))
    clear = "://" in text or text.strip(sign).count(sign) < 2
    if clear or any(text.startswith(f"{name}{sign}") for name in static):
        return static
    return static + names_of(discover("**", ASK_NAMES, kind="agent"), settings["PZC_NAMESPACE"])


class _Named:
    """A member that was named on the command line.

    Attributes:
        parent: what it belongs to.
        name: of it there; an index or key in brackets.
        kind: as the server tells it; empty for what it does not name.
    """

    def __init__(self, proxy: Proxy, path: Path) -> None:
        self.remote = remote_of(proxy)
        self._path = path
        self.parent: Any = proxy
        if len(path) > 1:
            self.parent = self.remote.refer((*self.remote.root, *path[:-1]), {"kind": "reference"}, None)
        self._step = list(path)[-1]
        about: About = self.remote.about((*self.remote.root, *path[:-1])) if self.is_member else About()
        self.kind = str(about.members.get(str(self._step), {}).get("kind", ""))
        self.name = text(path)

    @property
    def is_member(self) -> bool:
        return isinstance(self._step, str)

    def about(self) -> About:
        """What the server says of it."""
        return self.remote.about((*self.remote.root, *self._path))

    def get(self) -> Any:
        """Its value, or what stands for it."""
        step: Any = self._step
        return getattr(self.parent, step) if self.is_member else self.parent[key_of(step)]

    def set(self, value: object) -> None:
        """Give it another value."""
        step: Any = self._step
        if self.is_member:
            setattr(self.parent, step, value)
        else:
            self.parent[key_of(step)] = value


@contextmanager
def _member_of(args: argparse.Namespace) -> Generator[_Named]:
    target, member = split_member(args.target, known_names(args.target))
    path = parse(member)
    with proxy_of(target, args.timeout) as proxy:
        yield _Named(proxy, path)


def run_get(args: argparse.Namespace) -> int:
    """``pzc get``."""
    with _member_of(args) as member:
        if member.kind == "method":
            raise UsageError(f"{member.name} is a method: pzc call {args.target}")
        if member.kind == "signal":
            raise UsageError(f"{member.name} is a signal: pzc watch {_topic(args.target)}")
        value = member.get()
        if isinstance(value, RemoteReference):
            value = _copied(value, args.target, member.about())
        write_value(_finished(value, member.remote.timeout), args.json)
    return 0


def _topic(target: str) -> str:
    """``N.SIGNAL`` as ``N/TOPIC``."""
    agent, member = split_member(target, known_names(target))
    return f"{agent}/{member}"


def _copied(reference: RemoteReference, target: str, about: About) -> Any:
    """A copy of a remote mapping or sequence, where each thing that is no value tells what it is.

    Raises:
        UsageError: for anything else, with its members.
    """
    names = [name for name in dir(reference) if not name.startswith("_")]
    if {"keys", "items"} <= set(names):
        try:
            items = dict(reference.items()).items()
            return {key: _shown(_item(reference, key, value)) for key, value in items}
        except AttributeError:
            return list(map(_shown, reference))
    if "__getitem__" in dir(reference):
        return list(map(_shown, reference))
    if "get" in names and _needs_nothing(reference.get):  # a parameter, such as one of QCoDeS
        return reference.get()
    ways = _ways(target, about) or "it tells of no members"
    raise UsageError(f"{reference!r} stays at its server; it has {', '.join(names) or 'nothing'}: {ways}")


def _ways(target: str, about: About) -> str:
    """Commands that use what stays at its server: a call of it, and its likeliest value or method."""

    def unlikely(name: str) -> tuple[bool, bool]:
        entry = about.members[name]
        return str(entry.get("type")) not in _NUMBERS_AND_TEXTS, entry.get("writable") is False

    kinds = {name: entry.get("kind") for name, entry in sorted(about.members.items())}
    values = sorted((name for name, kind in kinds.items() if kind in ("property", "value")), key=unlikely)
    methods = [name for name, kind in kinds.items() if kind == "method"]
    ways = [f"pzc call {target}"] if about.callable else []
    ways += [f"pzc get {target}.{name}" for name in values[:1]]
    return " or ".join(ways or [f"pzc call {target}.{name}" for name in methods[:1]])


def _needs_nothing(method: Any) -> bool:
    try:
        signature(method).bind()
    except (TypeError, ValueError):
        return False
    return True


def _item(reference: RemoteReference, key: Any, value: Any) -> Any:
    """A value of a remote mapping; what stays at the server by its path, which can be used again."""
    return reference[key] if isinstance(value, RemoteReference) and isinstance(key, str | int) else value


def _shown(value: Any) -> Any:
    return repr(value) if isinstance(value, RemoteReference) else value


def _finished(value: Any, timeout: float) -> Any:
    """The result of a future, or any other value as it is."""
    if not isinstance(value, PendingCall):
        return value
    try:
        return value.result(timeout)
    except TimeoutError as exc:
        if value.done():
            raise
        raise CallTimeout(f"the call runs, but had no result within {timeout:g} s") from exc


def run_set(args: argparse.Namespace) -> int:
    """``pzc set``."""
    value = parse_value(args.value)
    with _member_of(args) as member:
        try:
            member.set(value)
        except MemberRefused:
            parameter = _parameter(member)
            if parameter is None:
                raise
            parameter.set(value)
    return 0


def _parameter(member: _Named) -> Any:
    """What a member refers to, when that has a ``set``, such as a parameter of QCoDeS; else None."""
    if member.kind not in ("", "reference"):
        return None
    try:
        held = member.get()
    except MemberRefused:
        return None
    return held if isinstance(held, RemoteReference) and "set" in dir(held) else None


def run_call(args: argparse.Namespace) -> int:
    """``pzc call``; prints nothing for None, unless as JSON, and what a generator yields as it comes."""
    positional, keywords = parse_arguments(args.arguments)
    with _member_of(args) as member:
        if member.kind in ("property", "value", "items"):
            raise UsageError(f"{member.name} is not a method: pzc get {args.target}")
        if member.kind == "signal":
            raise UsageError(f"{member.name} is a signal: pzc watch {_topic(args.target)}")
        value = _shown(_finished(member.get()(*positional, **keywords), member.remote.timeout))
        if isinstance(value, RemoteStream):
            for item in value:
                write_value(_shown(item), args.json)
        elif value is not None or args.json:
            write_value(value, args.json)
    return 0


def run_info(args: argparse.Namespace) -> int:
    """``pzc info``."""
    with leased_agent(args.timeout) as (agent, timeout):
        peer = meet(agent, args.agent, args.timeout)
        entry = agent.place(args.agent, timeout).entry
        details = {name: value for name, value in peer.details.items() if name not in _OF_THE_HANDSHAKE}
        told = {
            "endpoint": peer.endpoint,
            **({} if entry is None else _announced(entry)),
            "dialect": peer.dialect,
            "clock_offset_ms": peer.offset_ms,
            **details,
        }
        if peer.native:
            told["counts"] = agent.request(peer.endpoint, {"pzc": "statistics"}, timeout)["counts"]
        if args.json:
            write_json({**told, "members": _member_table(args.agent, peer, timeout)})
            return 0
        _write_details(told)  # first: a server at work tells its members only afterwards
        _write_members(_member_table(args.agent, peer, timeout) or {})
    return 0


def _announced(entry: Entry) -> dict[str, Any]:
    """What an agent that was found by its name tells everybody."""
    return {
        "found_as": f"@{entry.partition}@{entry.name}",
        "addresses": list(entry.addresses),
        "started": datetime.fromtimestamp(entry.started / 1000, UTC).isoformat(" ", "seconds"),
    }


def _write_details(told: dict[str, Any]) -> None:
    said = {name: value for name, value in told.items() if value not in ("", None, [], {})}
    width = max(map(len, said))
    for name, value in said.items():
        items = [f"{key} {count}" for key, count in as_table(value).items()] or as_list(value)
        shown = ", ".join(map(str, items)) if isinstance(value, dict | list) else str(value)
        write(folded(plain(f"{name:<{width}}  {shown}", keep=""), width + 2, piped=PIPED))


def _member_table(target: str, peer: Peer, timeout: float) -> dict[str, dict[str, Any]] | None:
    """What a server tells of the members of what is named; None for an agent that serves nothing."""
    if peer.native and "serves" not in peer.details:
        return None
    try:
        proxy = Proxy(target, timeout=timeout)
    except RemoteProtocolError:
        if not peer.native:  # an original agent without object, which only this answer tells
            return None
        raise
    try:
        remote: RemoteObject = remote_of(proxy)
        return {**remote.table, **_declared_below(remote)}
    finally:
        close(proxy)


def _declared_below(remote: RemoteObject) -> dict[str, dict[str, Any]]:
    """Members of channels and of several objects of which something is declared, by their paths."""
    found: dict[str, dict[str, Any]] = {}
    root, waiting = remote.root, [remote.root]
    for path in islice(waiting, MOST_SEARCHED):  # to which the loop adds
        for name, entry in sorted(remote.about(path).members.items()):
            within: Path = (*path, name)
            if path != root and declared(entry):
                found[text(within[len(root) :])] = entry
            if len(within) > len(root) + DEPTH:
                continue
            if entry.get("kind") == "reference":
                waiting.append(within)
            elif entry.get("kind") == "items" and "item" in entry and entry.get("items") == "sequence":
                waiting.append((*within, (0,)))
    return found


def _write_members(table: dict[str, dict[str, Any]]) -> None:
    if not table:
        return
    write("")
    rows: list[tuple[str, ...]] = []
    for name, about in sorted(table.items()):
        read_only = "read only" if about.get("writable") is False else ""
        said = ", ".join(filter(None, [read_only, declared(about)]))
        kind = f"{about.get('kind', '')} ({said})" if said else str(about.get("kind", ""))
        doc = str(about.get("doc") or "").strip().partition("\n")[0]
        rows.append((name, kind, str(about.get("signature", "")), doc))
    write_table(MEMBERS, rows, piped=PIPED)


def run_ping(args: argparse.Namespace) -> int:
    """``pzc ping``; the handshake is over before the first round trip."""
    times: list[float] = []
    with leased_agent(args.timeout) as (agent, timeout):
        peer = meet(agent, args.agent, args.timeout)
        for number in range(1, args.count + 1):
            began = time.perf_counter()
            answer = agent.request(peer.endpoint, "ping", timeout)
            times.append((time.perf_counter() - began) * 1000)
            if not args.json:
                write_sentence(
                    f"{to_line(answer)} from {peer.endpoint} number={number} time={times[-1]:.2f} ms"
                )
    summary = {"min_ms": min(times), "median_ms": statistics.median(times), "max_ms": max(times)}
    told = {"endpoint": peer.endpoint, "count": len(times), **summary, "round_trips_ms": times}
    shown = "/".join(f"{value:.2f}" for value in summary.values())
    write_told(told, f"{len(times)} round trips, minimum/median/maximum {shown} ms", args.json)
    return 0
