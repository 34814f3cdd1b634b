"""The page's application: its files, what is told over a websocket, and what it may ask for.

::

    GET  /, /static/…    the page itself, which tells nothing of the lab
    POST /login, /logout a session for a token
    GET  /session        who one is
    WS   /events         the lab as it changes, four times a second; a page that does not read is let go
    GET  /panel          the controls of an agent
    POST /act            set, call, lock, unlock, cancel
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from ....protocol.contents import as_table
from ....protocol.errors import Refused
from ....protocol.shown import printable
from ...output import describe
from ..collector import Collector
from ..feeds import Feeds
from .access import HEADERS, Access, User, header
from .acting import VERBS, Acting
from .audit import Audit
from .page import Page

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

STATIC = Path(__file__).with_name("static")
COOKIE = "pzc_monitor"
PACE, PATIENCE = 0.25, 10.0
"""Seconds between two messages to a page, and for which it may leave one unread, or a request unsaid."""

MOST_BODY, MOST_PAGES, MOST_OF_ONE = 65_536, 64, 32
"""Bytes of a request, and pages that are open at a time, of all users and of each one."""


_NAMES = "is no name of this page: --name HOST adds one, and a tunnel has the same port at both ends"


class Told(JSONResponse):
    """An answer in JSON, of any text: an instrument's may hold halves of characters, which are no UTF-8."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return json.dumps(content, allow_nan=False).encode()


class Guard:
    """Lets in only what is meant for this page and comes from it, and adds the headers of every answer.

    Args:
        app: what is guarded.
        access: who may.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        host, own = header(scope, "host"), scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        rightly = self._access.asked_rightly(host)
        if rightly and (own or self._access.is_own(header(scope, "origin"), host)):
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4403})
        else:
            why = "this request does not come from the page" if rightly else f"{printable(host)} {_NAMES}"
            refusal = Told({"error": why}, 403)
            await refusal(scope, receive, _with_headers(send))


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [pair for pair in message["headers"] if pair[0] != b"cache-control"]
            message["headers"] = [*kept, *((name.encode(), text.encode()) for name, text in HEADERS.items())]
        await send(message)

    return sending


class MonitorPage:
    """Answers of the page.

    Args:
        collector: keeps the state.
        feeds: follow topics.
        acting: does what is asked for.
        access: who may.
        audit: writes what was done.
    """

    def __init__(
        self, collector: Collector, feeds: Feeds, acting: Acting, access: Access, audit: Audit
    ) -> None:
        self._collector, self._feeds, self._acting = collector, feeds, acting
        self._access, self._audit = access, audit
        self._pages: dict[Page, str] = {}
        self._ended = asyncio.Event()

    def application(self) -> ASGIApp:
        """The whole, to be served."""
        routes = [
            Route("/", self._index), Route("/session", self._session), Route("/panel", self._panel),
            Route("/login", self._login, methods=["POST"]), Route("/logout", self._logout, methods=["POST"]),
            Route("/act", self._act, methods=["POST"]), WebSocketRoute("/events", self._events),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]  # fmt: skip
        return Guard(Starlette(routes=routes), self._access)

    def end(self) -> None:
        """End every page's websocket; in the loop that serves."""
        self._ended.set()

    def _user(self, asked: Request | WebSocket) -> User:
        user = self._access.user(_cookie(asked))
        if user is None:
            raise HTTPException(401, "a token is needed")
        return user

    def _endpoint(self, agent: str) -> str:
        with self._collector.state() as state:
            watched = state.agents.get(agent)
            if watched is None:
                raise HTTPException(404, "no such agent")
            return str(watched.about.get("endpoint") or agent)

    async def _index(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def _session(self, request: Request) -> Response:
        user = self._user(request)
        return Told({"user": user.name, "operates": user.operates})

    async def _login(self, request: Request) -> Response:
        asked = await _json(request)
        session = self._access.begin(str(asked.get("token", "")))
        if session is None:
            return Told({"error": "nobody has this token"}, 401)
        answer = Told({})
        answer.set_cookie(
            _name(request), session, httponly=True, samesite="strict", secure=self._access.secure, path="/"
        )
        return answer

    async def _logout(self, request: Request) -> Response:
        self._access.end(_cookie(request))
        return Told({})

    async def _panel(self, request: Request) -> Response:
        self._user(request)
        agent, path = request.query_params.get("agent", ""), request.query_params.get("path", "")
        endpoint = self._endpoint(agent)
        try:
            panel = await run_in_threadpool(self._acting.panel, agent, endpoint, path)
        except Exception as exc:  # what an agent tells may be anything
            return Told({"error": describe(exc)}, 502)
        return Told(panel)

    async def _act(self, request: Request) -> Response:
        user, session = self._user(request), _cookie(request)
        asked = await _json(request)
        agent = str(asked.get("agent", ""))
        endpoint = self._endpoint(agent)
        if asked.get("do") not in VERBS:
            raise HTTPException(400, "nothing that can be done")
        address = request.client.host if request.client else ""
        try:
            done = self._acting.submit(user.name, session, agent, endpoint, asked)
            result = await asyncio.wrap_future(done)
        except Exception as exc:  # what the instrument raised, too
            words = describe(exc)
            await run_in_threadpool(self._audit.write, user.name, address, agent, asked, words)
            return Told({"error": words}, 403 if isinstance(exc, Refused) else 409)
        await run_in_threadpool(self._audit.write, user.name, address, agent, asked, "ok")
        return Told({"result": result})

    async def _events(self, socket: WebSocket) -> None:
        session = _cookie(socket)
        user = self._access.user(session)
        if user is None or not self._has_room(user):
            await socket.close(4401 if user is None else 4429)
            return
        await socket.accept()
        page = Page()
        self._pages[page] = session
        tasks = [asyncio.ensure_future(each) for each in
                 (self._hear(socket, page), self._tell(socket, page), self._ended.wait())]  # fmt: skip
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            del self._pages[page]
            await run_in_threadpool(self._leave, page, session)
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await socket.close()

    def _has_room(self, user: User) -> bool:
        theirs = [self._access.user(session) for session in self._pages.values()].count(user)
        return len(self._pages) < MOST_PAGES and theirs < MOST_OF_ONE

    def _leave(self, page: Page, session: str) -> None:
        """What a page took is given back when it is gone, unless its user has another one."""
        self._feeds.want(page, [])
        if session not in self._pages.values():
            self._acting.leave(session)

    async def _hear(self, socket: WebSocket, page: Page) -> None:
        while True:
            text = await socket.receive_text()
            if len(text) > MOST_BODY:
                return
            page.ask(as_table(_loads(text)))
            await run_in_threadpool(self._follow, page)

    def _follow(self, page: Page) -> None:
        with self._collector.state() as state:
            keys = [
                (name, topic) for name in page.open if name in state.agents
                for topic in state.agents[name].topics
            ]  # fmt: skip
        keys += [(name, path) for name in page.open for path in self._acting.signals(name)]
        self._feeds.want(page, keys)

    async def _tell(self, socket: WebSocket, page: Page) -> None:
        followed = time.monotonic()
        while self._access.user(self._pages[page]) is not None:  # until its session ends
            message = await run_in_threadpool(self._news, page)
            await asyncio.wait_for(socket.send_text(json.dumps(message, allow_nan=False)), PATIENCE)
            await asyncio.sleep(PACE)
            if page.open and time.monotonic() - followed > 1.0:  # topics that are new
                followed = time.monotonic()
                await run_in_threadpool(self._follow, page)

    def _news(self, page: Page) -> dict[str, Any]:
        with self._collector.state() as state:
            opened = {
                name: str(state.agents[name].about.get("endpoint") or name)
                for each in list(self._pages) for name in each.open
                if name in state.agents and state.agents[name].answers
            }  # fmt: skip
        self._acting.read(opened)
        reads = self._acting.reads()
        with self._collector.state() as state:
            now = time.monotonic()
            message = page.news(state, reads, now)
        for line in message.get("log", ()):
            line["at"] += time.time() - now  # for people
        held = self._acting.held(self._pages.get(page, ""))
        return {**message, "held": held}


def _name(asked: HTTPConnection) -> str:
    """Of the cookie: a browser sends those of every port of a machine."""
    return f"{COOKIE}_{asked.url.port or ''}"


def _cookie(asked: HTTPConnection) -> str:
    return asked.cookies.get(_name(asked), "")


def _loads(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


async def _json(request: Request) -> dict[str, Any]:
    """A request's body.

    Raises:
        HTTPException: for one that is too long, or too slow, or no table in JSON.
    """
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "JSON is expected")
    body = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BODY:
                    raise HTTPException(413, "too long")
    except TimeoutError:
        raise HTTPException(408, "the request did not come in time") from None
    found = _loads(body.decode(errors="replace"))
    table = as_table(found)
    if not table:
        raise HTTPException(400, "a table is expected")
    return table
