"""What ``pzc top`` makes of what an agent tells: text, and a screen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Sparkline, Static

from pzc.console.monitor.lines import all_lines
from pzc.console.monitor.screen import AgentScreen, LabApp, ValueScreen

_AGE = {"measured": 1, "min": 0.001, "mean": 0.001, "max": 0.001, "p99": 0.001}
_TOPIC: dict[str, Any] = {
    "published": 5, "rate_hz": 1.5, "bytes_per_s": 2000.0, "dropped": 1, "subscribers": 2, "readers": [],
    "age_s": 3.0, "gaps": 0,
}  # fmt: skip
_TOLD: dict[str, Any] = {
    "agent": "psu", "name": "psu", "endpoint": "tcp://127.0.0.1:5555", "state": "well", "heard_s": 0.5,
    "calls": {"count": 12, "rate_hz": 3.0, "running": 1, "waiting": 2}, "running": [], "refused": {},
    "holds": "alice, 1 waiting", "topics": {"t": _TOPIC}, "does": "idle",
    "links": [
        {
            "agent": "ab" * 16, "transport": "unix", "state": "alive", "sent": 4, "rate_hz": 2.0,
            "unacknowledged": 1, "waiting": 2, "leases": 3, "age": _AGE,
        }
    ],
    "subscriptions": [
        {
            "topic": "u", "publisher": "cd" * 16, "transport": "tcp", "received": 7, "rate_hz": 0.5,
            "dropped": 0, "age": _AGE,
        }
    ],
}  # fmt: skip


def test_an_agent_as_text() -> None:
    assert all_lines(_TOLD) == [
        "psu tcp://127.0.0.1:5555  calls 12 (3.0/s), 1 running, 2 waiting  lock alice, 1 waiting",
        "  topic  published  value  rate/s  bytes/s  age  dropped  gaps  readers",
        "  t              5            1.5  2.00 kB  3 s        1     0        2",
        "  link to   transport  state  sent  rate/s  unread  leases  p99 ms",
        "  abababab       unix  alive     4     2.0       3       3     1.0",
        "  reads        of  transport  received  rate/s  dropped  p99 ms",
        "  u      cdcdcdcd        tcp         7     0.5        0     1.0",
    ]


def test_a_free_lock_and_empty_tables_are_short() -> None:
    told = {**_TOLD, "holds": "", "topics": {}, "links": [], "subscriptions": []}
    assert all_lines(told) == ["psu tcp://127.0.0.1:5555  calls 12 (3.0/s), 1 running, 2 waiting  lock free"]


def test_links_that_an_agent_tells_wrongly_are_shown_empty() -> None:
    told = {**_TOLD, "topics": {}, "links": [{"agent": 3, "age": "old"}], "subscriptions": []}
    assert all_lines(told)[-1].split() == ["0", "0.0", "0", "0", "0.0"]


class Fake:
    """A lab without agents."""

    def __init__(self) -> None:
        self.agents = {name: {**_TOLD, "agent": name} for name in ("psu", "dmm", "camera")}
        self.troubles: list[dict[str, Any]] = []
        self.wanted: list[tuple[str, str]] = []
        self.value: dict[str, Any] = {}

    def tell(self) -> dict[str, Any]:
        return {"agents": list(self.agents.values()), "troubles": self.troubles}

    def live(self, agent: str, topic: str) -> dict[str, Any]:
        return self.value

    def want(self, agent: str, topic: str) -> None:
        self.wanted.append((agent, topic))


def shown(app: LabApp) -> list[str]:
    table = app.screen_stack[0].query_one("#agents", DataTable)
    return [str(row.key.value) for row in table.ordered_rows]


def text(app: LabApp, part: str) -> str:
    return str(app.screen.query_one(part, Static).content)


def use(fake: Fake, do: Callable[[LabApp, Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        app = LabApp(fake)
        async with app.run_test(size=(120, 30)) as pilot:
            await pilot.pause()
            await do(app, pilot)

    asyncio.run(run())


def test_agents_stand_in_order_and_s_and_r_change_it() -> None:
    async def do(app: LabApp, pilot: Pilot[None]) -> None:
        assert shown(app) == ["camera", "dmm", "psu"]
        await pilot.press("r")
        assert shown(app) == ["psu", "dmm", "camera"]
        fake.agents["dmm"]["state"] = "silent"
        await pilot.press("s")
        assert (app.order, shown(app)) == ("state", ["psu", "camera", "dmm"])

    fake = Fake()
    use(fake, do)


@pytest.mark.parametrize("keys", [["q"], ["ctrl+c"], ["slash", "ctrl+c"], ["enter", "ctrl+c"]])
def test_it_ends_with_q_and_anywhere_with_control_c(keys: list[str]) -> None:
    async def do(app: LabApp, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        assert app.return_code == 0

    use(Fake(), do)


def test_a_filter_leaves_out_the_others_and_enter_goes_back_to_the_table() -> None:
    async def do(app: LabApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", "p", "s", "u", "enter")
        assert shown(app) == ["psu"]
        assert app.focused is app.query_one("#agents")

    use(Fake(), do)


def test_trouble_stands_on_top_with_words() -> None:
    async def do(app: LabApp, pilot: Pilot[None]) -> None:
        assert "all is well" in text(app, "#troubles")
        fake.troubles = [{"level": "bad", "agent": "dmm", "words": "does not answer: [red]frozen"}]
        app.refresh_now()
        assert "dmm does not answer: [red]frozen" in text(app, "#troubles")

    fake = Fake()
    use(fake, do)


def test_a_pause_holds_what_is_shown() -> None:
    async def do(app: LabApp, pilot: Pilot[None]) -> None:
        await pilot.press("p")
        fake.agents.clear()
        app.refresh_now()
        assert len(shown(app)) == 3
        await pilot.press("p")
        assert shown(app) == []

    fake = Fake()
    use(fake, do)


def test_enter_goes_down_to_an_agent_and_to_a_value_with_its_line_and_escape_back_up() -> None:
    async def do(app: LabApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        assert isinstance(app.screen, AgentScreen)
        await pilot.press("enter")
        assert isinstance(app.screen, ValueScreen)
        assert fake.wanted == [("camera", "t")]
        fake.value = {"text": "2.5", "error": "", "age_s": 0.1, "points": [(0, 1.0), (1, 2.5)]}
        app.screen.refresh_now()
        assert text(app, "#value").startswith("2.5 ")
        assert app.screen.query_one(Sparkline).data == [1.0, 2.5]
        await pilot.press("escape", "escape")
        assert fake.wanted[-1] == ("", "")
        assert shown(app) == ["camera", "dmm", "psu"]

    fake = Fake()
    use(fake, do)


@pytest.mark.parametrize("error", ["OSError: no route"])
def test_a_value_that_cannot_be_read_says_so(error: str) -> None:
    async def do(app: LabApp, pilot: Pilot[None]) -> None:
        fake.value = {"text": "1.0", "error": error, "age_s": 0.1}
        await pilot.press("enter", "enter")
        assert text(app, "#value").startswith(f"cannot be read: {error}")

    fake = Fake()
    use(fake, do)
