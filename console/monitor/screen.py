"""The lab in a terminal: troubles on top, a table of agents, and the way down to one value."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Sparkline, Static

from ...protocol.shown import plain
from ..values import age
from .lines import COLUMNS, TOPICS, about_lines, cells, topic_rows

WIDTH = 28
"""Characters of a cell, at most."""

STATES = {
    "silent": "bold red",
    "gone": "bold red",
    "trouble": "bold red",
    "look": "bold yellow",
    "well": "green",
}

SHOWN = 6
"""Troubles that are shown; how many more there are is told."""


class Source(Protocol):
    """What a screen shows; see `top.Watching`."""

    def tell(self) -> dict[str, Any]:
        """As `LabState.tell`."""
        ...

    def live(self, agent: str, topic: str) -> dict[str, Any]:
        """As `Live.tell`, with all points; empty before the first value."""
        ...

    def want(self, agent: str, topic: str) -> None:
        """Follow a topic from now on, and no other; none for an empty name."""
        ...


def _cell(value: object, column: str) -> Text:
    if column == "heard":
        value = "never" if value == float("inf") else f"{age(float(str(value)))} ago"
    right = isinstance(value, int | float)
    style = STATES.get(str(value), "") if column == "state" else ""
    return Text(plain(str(value), keep="")[:WIDTH], style, justify="right" if right else "left")


class _Rows(DataTable[Text]):
    """A table whose rows change in place, so that the cursor stays where it is."""

    def show(self, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
        """Show these rows; the first cell of each is its key."""
        if not self.columns:
            for column in columns:
                self.add_column(column, key=column)
        wanted = list(rows)
        keys = [str(row[0]) for row in wanted]
        if keys != [str(key.value) for key in self.rows]:
            at = str(self.ordered_rows[self.cursor_row].key.value) if self.row_count else ""
            self.clear()
            for row in wanted:
                self.add_row(*map(_cell, row, columns), key=str(row[0]))
            if at in keys:
                self.move_cursor(row=keys.index(at))
            return
        for key, row in zip(keys, wanted, strict=True):
            for column, value in zip(columns, row, strict=True):
                cell = _cell(value, column)
                if self.get_cell(key, column) != cell:
                    self.update_cell(key, column, cell, update_width=True)


class ValueScreen(Screen[None]):
    """One value, as it was and is.

    Args:
        lab: on which it stands.
        source: tells it.
        agent: whose it is.
        topic: its topic.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "app.pop_screen", "Back")]

    def __init__(self, lab: LabApp, source: Source, agent: str, topic: str) -> None:
        super().__init__()
        self._lab, self._source, self._agent, self._topic = lab, source, agent, topic

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield Static(Text(plain(f"{self._agent}/{self._topic}", keep=""), "bold"), id="title")
        yield Static("", id="value")
        yield Sparkline([], id="spark")
        yield Static("", id="range")
        yield Footer()

    def on_mount(self) -> None:
        """Follow the topic."""
        self._source.want(self._agent, self._topic)
        self.refresh_now()
        self.set_interval(0.25, self.refresh_now)

    def on_unmount(self) -> None:
        """Follow it no longer."""
        self._source.want("", "")

    def refresh_now(self) -> None:
        """Show what it is now."""
        if self._lab.paused:
            return
        told = self._source.live(self._agent, self._topic)
        if not told:
            self.query_one("#value", Static).update(Text("nothing came yet"))
            return
        text = f"cannot be read: {told['error']}" if told["error"] else told["text"]
        shown = Text(plain(text, keep=""), "bold red" if told["error"] else "bold")
        self.query_one("#value", Static).update(shown.append(f"   {age(told['age_s'])} ago", "dim"))
        values = [value for _, value in told.get("points", ())]
        self.query_one(Sparkline).data = values
        spread = f"{len(values)} values, {min(values):g} to {max(values):g}" if values else ""
        self.query_one("#range", Static).update(Text(spread))


class AgentScreen(Screen[None]):
    """One agent: its calls, its lock, its topics.

    Args:
        lab: on which it stands.
        source: tells of it.
        agent: its name.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "app.pop_screen", "Back")]

    def __init__(self, lab: LabApp, source: Source, agent: str) -> None:
        super().__init__()
        self._lab, self._source, self._agent = lab, source, agent

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield Static("", id="about")
        yield _Rows(cursor_type="row", id="topics")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to show it."""
        self.refresh_now()
        self.set_interval(0.5, self.refresh_now)
        self.query_one(_Rows).focus()

    def refresh_now(self) -> None:
        """Show how it is now."""
        if self._lab.paused:
            return
        told = next((each for each in self._source.tell()["agents"] if each["agent"] == self._agent), None)
        if told is None:
            self.query_one("#about", Static).update(Text(plain(f"{self._agent} is gone", keep="")))
            return
        self.query_one("#about", Static).update(Text("\n".join(about_lines(told))))
        self.query_one(_Rows).show(TOPICS, topic_rows(told))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Go down to one value."""
        event.stop()
        self._lab.push_screen(ValueScreen(self._lab, self._source, self._agent, str(event.row_key.value)))


class LabApp(App[None]):
    """All agents of a lab.

    Args:
        source: tells of them.

    Attributes:
        paused: nothing changes on the screen.
        order: column by which rows are sorted.
        reverse: whether the largest stands first.
        wanted: text that a row has to have.
    """

    TITLE = "pzc top"
    CSS = """
    #troubles { height: auto; padding: 0 1; background: $panel; }
    #filter { display: none; }
    #filter.shown { display: block; }
    #spark { height: 8; margin: 1 2; }
    #value, #title, #range, #about { padding: 0 2; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Quit"), ("s", "sort", "Sort"), ("r", "reverse", "Reverse"),
        ("slash", "filter", "Filter"), ("p", "pause", "Pause"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]  # fmt: skip
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self.paused = False
        self.order = COLUMNS[0]
        self.reverse = False
        self.wanted = ""

    def compose(self) -> ComposeResult:
        """Its parts."""
        yield Static("", id="troubles")
        yield Input(placeholder="part of a name, state or owner", id="filter")
        yield _Rows(cursor_type="row", id="agents")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to show the lab."""
        self.refresh_now()
        self.set_interval(0.5, self.refresh_now)
        self.query_one("#agents").focus()

    def refresh_now(self) -> None:
        """Show how it is now, unless it is paused."""
        if self.paused:
            return
        self.show(self._source.tell())

    def show(self, told: dict[str, Any]) -> None:
        """Show a state."""
        screen = self.screen_stack[0]
        screen.query_one("#troubles", Static).update(_troubles(told, self.title_line(told)))
        rows = [cells(each) for each in told["agents"]]
        rows = [row for row in rows if self.wanted.lower() in " ".join(map(str, (*row[:3], row[-1]))).lower()]
        at = COLUMNS.index(self.order)
        rows.sort(key=lambda row: (row[at], row[0]), reverse=self.reverse)
        screen.query_one("#agents", _Rows).show(COLUMNS, rows)

    def title_line(self, told: dict[str, Any]) -> str:
        """The first line."""
        paused = ", paused" if self.paused else ""
        return f"{time.strftime('%H:%M:%S')}  {len(told['agents'])} agents, by {self.order}{paused}"

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.order = COLUMNS[(COLUMNS.index(self.order) + 1) % len(COLUMNS)]
        self.show(self._source.tell())

    def action_reverse(self) -> None:
        """Turn the order round."""
        self.reverse = not self.reverse
        self.show(self._source.tell())

    def action_pause(self) -> None:
        """Stop or go on showing what changes."""
        self.paused = not self.paused
        self.show(self._source.tell())

    def action_filter(self) -> None:
        """Ask for a part of a name."""
        entry = self.screen_stack[0].query_one("#filter", Input)
        entry.add_class("shown")
        entry.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Leave out what does not have the text."""
        self.wanted = event.value
        self.show(self._source.tell())

    def on_input_submitted(self) -> None:
        """Go back to the table."""
        entry = self.screen_stack[0].query_one("#filter", Input)
        entry.set_class(bool(entry.value), "shown")
        self.query_one("#agents").focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Go down to one agent."""
        self.push_screen(AgentScreen(self, self._source, str(event.row_key.value)))


def _troubles(told: dict[str, Any], title: str) -> Text:
    troubles = told["troubles"]
    text = Text(f"{title}\n", "dim")
    if not troubles:
        return text.append("all is well", "green")
    for each in troubles[:SHOWN]:
        style = "bold #ffffff on #8b0000" if each["level"] == "bad" else "bold yellow"
        text.append(plain(f"{each['agent']} {each['words']}\n", keep="\n"), style)
    more = len(troubles) - SHOWN
    if more > 0:
        text.append(f"and {more} more", "dim")
    return text
