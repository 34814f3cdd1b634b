"""Desk: where workers, and the listener of a query, ask the process that holds the query's rows.

::

    question                                     answer
    {"ask": "rows", "spans": [[line..], ..]}     {"rows": Arrow stream, "left": spans}; again for what is left
    {"ask": "acknowledge", "offset": {...}}      {"released": count}
    {"ask": "status"}                            counts
    what cannot be answered                      {"error": [class, text]}

It is an agent of its own: requests are signed and verified as any, over the Unix socket and shared memory on
one host. It neither sends nor accepts pickles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ...agents.agent import Agent
from ...protocol.errors import PzcError, RemoteError, RemoteProtocolError, RowsMissing
from ...protocol.shown import shown
from .offsets import Line, Span

Words = tuple[str, int, str, int, int]
"""A span on the wire: publisher, epoch, topic, after, upto."""


class Rows(Struct, tag_field="ask", tag="rows", forbid_unknown_fields=True):
    """Asks for the first rows of some spans."""

    spans: list[Words]


class Acknowledge(Struct, tag_field="ask", tag="acknowledge", forbid_unknown_fields=True):
    """Spark has committed everything up to an offset."""

    offset: dict[str, Any]


class Status(Struct, tag_field="ask", tag="status", forbid_unknown_fields=True):
    """Asks how it goes."""


class Answers(Protocol):
    """What the desk is the face of."""

    def page(self, spans: Sequence[Span]) -> tuple[bytes, list[Span]]:
        """The first rows, and the spans that are left."""
        ...

    def acknowledge(self, offset: dict[str, Any]) -> int:
        """Release up to an offset; how many rows that were."""
        ...

    def status(self) -> dict[str, Any]:
        """Counts."""
        ...


class Desk(Agent):
    """Answers for one query; arguments as `Agent`, and what it is the face of."""

    def __init__(self, its: Answers, *args: Any, **options: Any) -> None:
        self._its = its
        super().__init__(*args, **options)

    def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> dict[str, Any]:
        """Answer one question."""
        del sender, topic, msgid
        try:
            return self._answer(msgspec.convert(content, Rows | Acknowledge | Status))
        except msgspec.ValidationError as exc:
            return {"error": [RemoteProtocolError.__name__, f"not a question to a source of rows: {exc}"]}
        except PzcError as exc:
            return {"error": [type(exc).__name__, str(exc)]}

    def _answer(self, question: Rows | Acknowledge | Status) -> dict[str, Any]:
        if isinstance(question, Rows):
            data, left = self._its.page([from_words(words) for words in question.spans])
            return {"rows": data, "left": [to_words(span) for span in left]}
        if isinstance(question, Acknowledge):
            return {"released": self._its.acknowledge(question.offset)}
        return self._its.status()


def ask(agent: Agent, endpoint: str, question: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Ask a desk; the table in the module's docstring has the questions.

    Args:
        agent: asks; it speaks msgpack.
        endpoint: of the desk.
        question: one of the table.
        timeout: seconds.

    Raises:
        RowsMissing: when rows are asked for that are not there.
        RemoteError: for any other error of the desk.
        PzcError: as `Agent.request`.
    """
    answer = agent.request(endpoint, question, timeout)
    if not isinstance(answer, dict):
        raise RemoteProtocolError(f"{endpoint} is no desk of a query: {shown(answer, 200)}")
    if "error" in answer:
        name, text = answer["error"]
        raise RowsMissing(text) if name == RowsMissing.__name__ else RemoteError(name, text)
    return answer


def to_words(span: Span) -> Words:
    """For the wire."""
    return span.line.publisher, span.line.epoch, span.line.topic, span.after, span.upto


def from_words(words: Words) -> Span:
    """From the wire."""
    publisher, epoch, topic, after, upto = words
    return Span(Line(publisher, epoch, topic), after, upto)
