"""Acting: reading members for panels, setting, calling, locking; each user with a key of their own.

::

    reading members   4 threads; one read per agent at a time, none while calls run there
    calls, settings   16 threads of each user, at most `PER_AGENT` for one agent
    urgent calls      32 threads of each user and proxies of their own, so that nothing keeps them back;
                      bounded as well; what ends calls and locks goes with them
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

from ....agents import Lock, Proxy, RemoteReference, cancel, close, lock, remote_of
from ....protocol.contents import as_list, as_table
from ....protocol.errors import Refused, RemoteError
from ....protocol.paths import Step, key_of, parse
from ....transport.wire import Protocol
from ...targets import parse_value
from ...values import to_json, to_text
from ..live import Live
from .panel import panel_of, readable

PER_AGENT = 4
"""Calls of a user at one agent at a time; as many urgent ones come beside them."""

READ_EVERY, READ_TIMEOUT = 2.0, 1.0
"""Seconds between two reads of the members of a panel that is open, and for one of them."""

MOST_PROXIES = 500
"""Agents to which one user's connections are kept."""

MOST_READ, MOST_ITEMS = 50, 32
"""Members of a panel that are read, and items of a sequence that are listed."""

CALL_TIMEOUT, URGENT_TIMEOUT, LOCK_TTL = 60.0, 5.0, 30.0

VERBS = ("set", "call", "lock", "unlock", "cancel")
_ENDING = ("unlock", "cancel")


class Operator:
    """What one user does, with one key.

    Args:
        protocol: signs; None for the settings' own.
        timeout: seconds for one exchange.

    Attributes:
        calls: run calls and settings, of this user alone; ``urgent`` those that are urgent.
    """

    def __init__(self, protocol: Protocol | None, timeout: float = CALL_TIMEOUT) -> None:
        self.calls = ThreadPoolExecutor(16, "pzc-page-calls")
        self.urgent = ThreadPoolExecutor(32, "pzc-page-urgent")
        self._protocol, self._timeout = protocol, timeout
        self._proxies: dict[tuple[str, float], Proxy] = {}
        self._wanted: set[tuple[str, str]] = set()  # locks that a session has, or is about to take
        self._locks: dict[tuple[str, str], tuple[Proxy, Lock]] = {}
        self._closed = False
        self._mutex = threading.Lock()

    def proxy(self, endpoint: str, session: str = "", timeout: float = 0.0) -> Proxy:
        """A proxy of an agent; that of the session while it holds the lock.

        Args:
            endpoint: of the agent.
            session: that may hold its lock.
            timeout: seconds for one exchange, the first one too; 0 for the operator's own.

        Raises:
            Refused: once closed.
            PzcError: as `Proxy`.
        """
        key = endpoint, timeout or self._timeout
        with self._mutex:
            self._check_open()
            held = self._locks.get((session, endpoint))
            found = self._proxies.get(key) if held is None else held[0]
        if found is not None:
            return found
        made = Proxy(endpoint, protocol=self._protocol, timeout=key[1])
        unused = [made]
        try:
            with self._mutex:
                self._check_open()
                kept = self._proxies.setdefault(key, made)
                unused = [made] if kept is not made else []
                if len(self._proxies) > MOST_PROXIES:
                    unused.append(self._proxies.pop(next(iter(self._proxies))))
        finally:
            for each in unused:
                close(each)
        return kept

    def _check_open(self) -> None:
        if self._closed:
            raise Refused("the page is being ended")

    def want(self, endpoint: str, session: str) -> None:
        """A session is about to `take` a lock.

        Raises:
            Refused: while it takes it.
        """
        key = session, endpoint
        with self._mutex:
            if key in self._wanted and key not in self._locks:
                raise Refused("the lock is being taken already")
            self._wanted.add(key)

    def take(self, endpoint: str, session: str, reason: str) -> None:
        """Take the lock for a session, by a proxy of its own; again: no effect.

        Raises:
            Refused: when the session has left since it wanted it.
            PzcError: as `lock`.
        """
        key = session, endpoint
        with self._mutex:
            if key in self._locks:
                return
        made: Proxy | None = None
        try:
            made = Proxy(endpoint, protocol=self._protocol, timeout=self._timeout)
            held = lock(made, LOCK_TTL, reason=reason)
            with self._mutex:
                if key not in self._wanted:  # nobody would give it back
                    raise Refused("the page was closed before it had the lock")
                self._locks[key] = made, held
        except BaseException:
            with self._mutex:
                self._wanted.discard(key)
            if made is not None:
                close(made)
            raise

    def give(self, session: str, endpoint: str) -> None:
        """Give back the lock of an agent."""
        with self._mutex:
            self._wanted.discard((session, endpoint))
            made, held = self._locks.pop((session, endpoint), (None, None))
        if made is not None and held is not None:
            try:
                held.release()
            finally:
                close(made)

    def leave(self, session: str) -> list[str]:
        """Want no lock for a session any more; endpoints whose locks are to be given back."""
        with self._mutex:
            self._wanted = {key for key in self._wanted if key[0] != session}
        return self.holds(session)

    def holds(self, session: str) -> list[str]:
        """Endpoints whose locks a session holds."""
        with self._mutex:
            return [endpoint for owner, endpoint in self._locks if owner == session]

    def close(self) -> None:
        """Do nothing more, give everything back, and wait for nobody."""
        for pool in (self.calls, self.urgent):
            pool.shutdown(wait=False, cancel_futures=True)
        with self._mutex:
            proxies = [made for made, _ in self._locks.values()] + list(self._proxies.values())
            self._wanted, self._locks, self._proxies, self._closed = set(), {}, {}, True
        for proxy in proxies:
            close(proxy)


class Acting:
    """All that the page does to agents; any thread.

    Args:
        reading: makes the reads of whoever looks.
        operators: who may act, by name.
        busy: whether calls run at an agent, by its name.
    """

    def __init__(
        self, reading: Operator, operators: dict[str, Operator], busy: Callable[[str], bool]
    ) -> None:
        self._reading, self._operators, self._busy = reading, operators, busy
        self._readers = ThreadPoolExecutor(4, "pzc-page-reads")
        self._at_work: Counter[tuple[str, str, bool]] = Counter()
        self._mutex = threading.Lock()
        self._panels: dict[tuple[str, str], dict[str, Any]] = {}
        self._reads: dict[str, Future[None]] = {}
        self._read_at: dict[str, float] = {}
        self._lives: dict[tuple[str, str], Live] = {}

    # --- looking -------------------------------------------------------------------------------------

    def panel(self, agent: str, endpoint: str, path: str) -> dict[str, Any]:
        """The panel of an agent, or of what a path leads to.

        Raises:
            PzcError: when the agent does not tell.
        """
        parsed = parse(path) if path else ()
        remote = remote_of(self._reading.proxy(endpoint))
        panel = panel_of(remote.about((*remote.root, *parsed)), parsed)
        if panel["items"]:
            panel["keys"] = self._keys(endpoint, path, panel["items"])
        with self._mutex:
            self._panels[agent, path] = panel
            while len(self._panels) > 200:
                self._panels.pop(next(iter(self._panels)))
        return panel

    def _keys(self, endpoint: str, path: str, kind: str) -> list[str]:
        found: Any = _reached(self._reading.proxy(endpoint), path)
        keys = range(min(len(found), MOST_ITEMS)) if kind == "sequence" else list(found)[:MOST_ITEMS]
        return [f"{path}[{key!r}]" for key in keys if isinstance(key, int | str)]

    def read(self, agents: dict[str, str]) -> None:
        """Read the members of the panels of these agents, by name and endpoint, unless it was just done."""
        now = time.monotonic()
        with self._mutex:
            self._lives = {key: live for key, live in self._lives.items() if key[0] in agents}
            for agent, endpoint in agents.items():
                before = self._reads.get(agent)
                due = now - self._read_at.get(agent, -READ_EVERY) >= READ_EVERY
                if due and (before is None or before.done()) and not self._busy(agent):
                    self._read_at[agent] = now
                    self._reads[agent] = self._readers.submit(self._read, agent, endpoint)

    def _read(self, agent: str, endpoint: str) -> None:
        with self._mutex:
            panels = [panel for (name, _), panel in self._panels.items() if name == agent]
            read_at = {key: live.at for key, live in self._lives.items()}
            # Those that were read longest ago come first: more than `MOST_READ` are read in turn.
            paths = sorted(
                (path for panel in panels for path in readable(panel)),
                key=lambda path: read_at.get((agent, path), 0.0),
            )
        for path in paths[:MOST_READ]:
            try:
                value: object = _reached(self._reading.proxy(endpoint), path)
                content: object = repr(value) if isinstance(value, RemoteReference) else value
            except Exception as exc:  # what the instrument raised, too
                content = RemoteError(type(exc).__name__, str(exc))
            with self._mutex:
                self._lives.setdefault((agent, path), Live()).take(content, time.monotonic())
            if isinstance(content, RemoteError) and self._busy(agent):
                return  # somebody works there: what is left is read later

    def signals(self, agent: str) -> list[str]:
        """Paths of the signals of an agent's panels: topics, once somebody subscribes."""
        with self._mutex:
            panels = [panel for (name, _), panel in self._panels.items() if name == agent]
        return [each["path"] for panel in panels for each in panel["controls"] if each["kind"] == "signal"]

    def reads(self) -> dict[tuple[str, str], Live]:
        """What was read of members, by agent and path."""
        with self._mutex:
            return dict(self._lives)

    # --- acting --------------------------------------------------------------------------------------

    def submit(
        self, user: str, session: str, agent: str, endpoint: str, asked: dict[str, Any]
    ) -> Future[Any]:
        """Do what was asked for; the future's result is in terms of JSON.

        Raises:
            Refused: for a user who is no operator, and when too many calls of theirs run there.
        """
        operator = self._operators.get(user)
        if operator is None:
            raise Refused("this page only shows: start pzc monitor with --operator NAME=KEYRING")
        urgent = bool(asked.get("urgent")) or asked["do"] in _ENDING
        at, pool = (user, agent, urgent), operator.urgent if urgent else operator.calls
        with self._mutex:
            if self._at_work[at] >= PER_AGENT:
                let_in = "" if urgent else "; urgent ones are let in"
                raise Refused(f"{PER_AGENT} {'urgent ' * urgent}calls of {user} run at {agent}{let_in}")
            if asked["do"] == "lock":
                operator.want(endpoint, session)
            self._at_work[at] += 1
        done = pool.submit(self._do, operator, session, endpoint, asked, urgent)
        done.add_done_callback(lambda _: self._leave(at))
        return done

    def _leave(self, at: tuple[str, str, bool]) -> None:
        with self._mutex:
            self._at_work[at] -= 1
            if not self._at_work[at]:
                del self._at_work[at]

    def _do(
        self, operator: Operator, session: str, endpoint: str, asked: dict[str, Any], urgent: bool
    ) -> Any:
        verb, path = asked["do"], str(asked.get("path", ""))
        if verb == "lock":
            return operator.take(endpoint, session, str(asked.get("reason", ""))[:200])
        if verb == "unlock":
            return operator.give(session, endpoint)
        # What is urgent passes the lock: it needs no proxy that holds it.
        holder, within = ("", URGENT_TIMEOUT) if urgent else (session, 0.0)
        proxy = operator.proxy(endpoint, holder, within)
        if verb == "cancel":
            return cancel(proxy, call=str(asked.get("id", "")))
        if verb == "set":
            return _set(proxy, path, parse_value(str(asked.get("value", ""))))
        positional = [parse_value(str(each)) for each in as_list(asked.get("args"))]
        keywords = {name: parse_value(str(each)) for name, each in as_table(asked.get("kwargs")).items()}
        timeout = URGENT_TIMEOUT if urgent else CALL_TIMEOUT
        method: Any = _reached(proxy, path)
        value = method.options(timeout=timeout)(*positional, **keywords)
        if isinstance(value, RemoteReference):
            value = repr(value)
        return {"text": to_text(value)[:4000], "value": to_json(value)}

    def held(self, session: str) -> list[str]:
        """Endpoints whose locks a session holds."""
        return [endpoint for operator in self._operators.values() for endpoint in operator.holds(session)]

    def leave(self, session: str) -> None:
        """Give back the locks of a session, each by itself: a server that hangs keeps no other's lock.

        What cannot be told ends with its time to live.
        """
        for operator in self._operators.values():
            for endpoint in operator.leave(session):
                with suppress(RuntimeError):  # the page ends, and gives everything back
                    operator.urgent.submit(operator.give, session, endpoint)

    def close(self) -> None:
        """Do nothing more, and give everything back."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        for operator in self._operators.values():
            operator.close()
        self._reading.close()


def _reached(proxy: Any, path: str) -> Any:
    """What a path leads to; errors as reading it."""
    return _walked(proxy, parse(path))


def _walked(found: Any, path: Sequence[Step]) -> Any:
    for step in path:
        found = getattr(found, step) if isinstance(step, str) else found[_key(step)]
    return found


def _set(proxy: Any, path: str, value: object) -> None:
    *before, last = parse(path)
    holder = _walked(proxy, before)
    if isinstance(last, str):
        setattr(holder, last, value)
    else:
        holder[_key(last)] = value


def _key(step: Any) -> Any:
    """What stands in the brackets of a step.

    Raises:
        Refused: for a handle, of which a page knows none.
    """
    if not isinstance(step, tuple):
        raise Refused("a page has no handles")
    return key_of(cast("tuple[Any, ...]", step))
