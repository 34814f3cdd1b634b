"""Acting: reading members for panels, setting, calling, locking; each user with a key of their own.

::

    reading members   4 threads; one read per agent at a time, none while calls run there
    calls, settings   16 threads, at most `PER_AGENT` for one agent
    urgent calls      8 threads of their own, so that nothing keeps them back
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, cast

from ....agents.client.locking import Lock, lock
from ....agents.client.reference import RemoteReference
from ....agents.client.running import cancel
from ....agents.client.terms import remote_of
from ....agents.proxy import Proxy, close
from ....protocol.contents import as_list, as_table
from ....protocol.errors import PzcError, Refused, RemoteError
from ....protocol.paths import Step, key_of, parse
from ....transport.wire import Protocol
from ...targets import parse_value
from ...values import to_json, to_text
from ..live import Live
from .panel import panel_of, readable

PER_AGENT = 4
"""Calls of the page at one agent at a time; urgent ones come beside them."""

READ_EVERY, READ_TIMEOUT = 2.0, 1.0
"""Seconds between two reads of the members of a panel that is open, and for one of them."""

MOST_PROXIES = 500
"""Agents to which one user's connections are kept."""

MOST_READ, MOST_ITEMS = 50, 32
"""Members of a panel that are read, and items of a sequence that are listed."""

CALL_TIMEOUT, URGENT_TIMEOUT, LOCK_TTL = 60.0, 5.0, 30.0

VERBS = ("set", "call", "lock", "unlock", "cancel")


class Operator:
    """What one user does, with one key.

    Args:
        protocol: signs; None for the settings' own.
        timeout: seconds for one exchange.
    """

    def __init__(self, protocol: Protocol | None, timeout: float = CALL_TIMEOUT) -> None:
        self._protocol, self._timeout = protocol, timeout
        self._proxies: dict[str, Proxy] = {}
        self._locks: dict[tuple[str, str], tuple[Proxy, Lock]] = {}
        self._mutex = threading.Lock()

    def proxy(self, endpoint: str, session: str = "") -> Proxy:
        """A proxy of an agent; that of the session while it holds the lock.

        Raises:
            PzcError: as `Proxy`.
        """
        with self._mutex:
            held = self._locks.get((session, endpoint))
            found = self._proxies.get(endpoint) if held is None else held[0]
        if found is not None:
            return found
        made = Proxy(endpoint, protocol=self._protocol, timeout=self._timeout)
        with self._mutex:
            kept = self._proxies.setdefault(endpoint, made)
            old = self._proxies.pop(next(iter(self._proxies))) if len(self._proxies) > MOST_PROXIES else None
        if kept is not made:
            close(made)
        if old is not None:
            close(old)
        return kept

    def take(self, endpoint: str, session: str, reason: str) -> None:
        """Take the lock for a session, by a proxy of its own; again: no effect."""
        with self._mutex:
            if (session, endpoint) in self._locks:
                return
        made = Proxy(endpoint, protocol=self._protocol, timeout=CALL_TIMEOUT)
        try:
            held = lock(made, LOCK_TTL, reason=reason)
        except BaseException:
            close(made)
            raise
        with self._mutex:
            self._locks[session, endpoint] = made, held

    def give(self, session: str, endpoint: str = "") -> None:
        """Give back the lock of an agent, or all that a session holds."""
        with self._mutex:
            keys = [key for key in self._locks if key[0] == session and endpoint in ("", key[1])]
            ended = [self._locks.pop(key) for key in keys]
        for made, held in ended:
            try:
                held.release()
            finally:
                close(made)

    def holds(self, session: str) -> list[str]:
        """Endpoints whose locks a session holds."""
        with self._mutex:
            return [endpoint for owner, endpoint in self._locks if owner == session]

    def close(self) -> None:
        """Give everything back."""
        with self._mutex:
            sessions = {session for session, _ in self._locks}
        for session in sessions:
            self.give(session)
        for proxy in self._proxies.values():
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
        self._calls = ThreadPoolExecutor(16, "pzc-page-calls")
        self._urgent = ThreadPoolExecutor(8, "pzc-page-urgent")
        self._at_work: Counter[str] = Counter()
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
            paths = [
                path for (name, _), panel in self._panels.items() if name == agent for path in readable(panel)
            ]
        for path in paths[:MOST_READ]:
            try:
                value: object = _reached(self._reading.proxy(endpoint), path)
                content: object = repr(value) if isinstance(value, RemoteReference) else value
            except PzcError as exc:
                content = RemoteError(type(exc).__name__, str(exc))
            except Exception as exc:  # what the instrument raised
                content = RemoteError(type(exc).__name__, str(exc))
            with self._mutex:
                self._lives.setdefault((agent, path), Live()).take(content, time.monotonic())
            if isinstance(content, RemoteError) and content.args and self._busy(agent):
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
            Refused: for a user who is no operator, and when too many calls of the page run there.
        """
        operator = self._operators.get(user)
        if operator is None:
            raise Refused("this page only shows: start pzc monitor with --operator NAME=KEYRING")
        work = partial(self._do, operator, session, endpoint, asked)
        if asked.get("urgent"):
            return self._urgent.submit(work)
        with self._mutex:
            if self._at_work[agent] >= PER_AGENT:
                raise Refused(f"{PER_AGENT} calls of this page run at {agent}; urgent ones are let in")
            self._at_work[agent] += 1
        done = self._calls.submit(work)
        done.add_done_callback(lambda _: self._leave(agent))
        return done

    def _leave(self, agent: str) -> None:
        with self._mutex:
            self._at_work[agent] -= 1

    def _do(self, operator: Operator, session: str, endpoint: str, asked: dict[str, Any]) -> Any:
        verb, path = asked["do"], str(asked.get("path", ""))
        if verb == "lock":
            return operator.take(endpoint, session, str(asked.get("reason", ""))[:200])
        if verb == "unlock":
            return operator.give(session, endpoint)
        proxy = operator.proxy(endpoint, session)
        if verb == "cancel":
            return cancel(proxy, call=str(asked.get("id", "")))
        if verb == "set":
            return _set(proxy, path, parse_value(str(asked.get("value", ""))))
        positional = [parse_value(str(each)) for each in as_list(asked.get("args"))]
        keywords = {name: parse_value(str(each)) for name, each in as_table(asked.get("kwargs")).items()}
        timeout = URGENT_TIMEOUT if asked.get("urgent") else CALL_TIMEOUT
        method: Any = _reached(proxy, path)
        value = method.options(timeout=timeout)(*positional, **keywords)
        if isinstance(value, RemoteReference):
            value = repr(value)
        return {"text": to_text(value)[:4000], "value": to_json(value)}

    def held(self, session: str) -> list[str]:
        """Endpoints whose locks a session holds."""
        return [endpoint for operator in self._operators.values() for endpoint in operator.holds(session)]

    def leave(self, session: str) -> None:
        """Give back the locks of a session; what cannot be told ends with its time to live."""
        for operator in self._operators.values():
            with suppress(PzcError):
                operator.give(session)

    def close(self) -> None:
        """Do nothing more, and give everything back."""
        for pool in (self._readers, self._calls, self._urgent):
            pool.shutdown(wait=False, cancel_futures=True)
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
