"""What the page "What travels" says of each kind of value holds for calls, results and notifications."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import re
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from pzc import (
    Agent,
    Key,
    Keyring,
    Protocol,
    Proxy,
    PzcError,
    RemoteReference,
    Role,
    Server,
    reading,
    register_class,
)

from tests.contract.rigs.supply import KEY, TIMEOUT

pd: Any = pytest.importorskip("pandas")
pint: Any = pytest.importorskip("pint")

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "values.md"
LINE = re.compile(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)
LINES = {kind: cells for kind, *cells in LINE.findall(PAGE.read_text(encoding="utf-8"))}
"""By kind what arrives with a key, without, and in JSON."""

REFUSED = re.compile(r"of class .*PZC_KEY")
NAMES = ["key", "none", "json"]
KEYS = [Key(f"a long secret of the {role.name}", role.name.lower(), role) for role in Role]


class Mode(enum.Flag):
    """How a channel is coupled."""

    AC = 1
    DC = 2


class Point(NamedTuple):
    """A point of a trace."""

    x: float
    y: list[float]


@dataclasses.dataclass(frozen=True)
class Reading:
    """A frozen dataclass whose constructor does not take its fields."""

    volts: float = dataclasses.field(init=False, default=0.0)


@dataclasses.dataclass
class Limits:
    """A dataclass that can change."""

    low: float


@register_class
class Trace:
    """A class of the user's."""

    def __init__(self, points: list[float]) -> None:
        self.points = points

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and other.points == self.points

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class Channel:
    """Stays at its server."""

    unit = "V"


class Bench:
    """Keeps what it was given, and gives it back."""

    unit = "A"

    def __init__(self) -> None:
        self.value: Any = None
        self.channel = Channel()

    def back(self, value: Any) -> Any:
        self.value = value
        return value

    @reading
    def last(self) -> Any:
        return self.value


LARGE = np.zeros((300, 300))
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
READING = Reading()
object.__setattr__(READING, "volts", 3.3)
EXAMPLES: dict[str, list[Any]] = {
    "null": [None],
    "bool": [True, False],
    "number": [0, -(1 << 63), (1 << 64) - 1, 1.5, float("inf")],
    "int": [1 << 64, -(1 << 70)],
    "string": ["", "Ω"],
    "text": ["\ud800"],
    "bytes": [b"", b"\xff"],
    "bytearray": [bytearray(b"ab")],
    "list": [[], [1, [None, b"c"]]],
    "tuple": [(), (1, (2,))],
    "map": [{}, {"a": {"b": [1]}, "__pzc__": "set"}],
    "dict": [{(1, 2): 3}, {fractions.Fraction(1, 2): 1}],
    "set": [set(), {1, "a"}],
    "frozenset": [frozenset({1})],
    "deque": [collections.deque([1, 2], 3)],
    "subclass": [collections.OrderedDict(a=1)],
    "complex": [1 + 2j],
    "decimal": [decimal.Decimal("1.50"), decimal.Decimal("Infinity")],
    "fraction": [fractions.Fraction(1, 3)],
    "datetime": [
        dt.datetime.fromisoformat("2026-01-02T03:00"),
        dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
    ],
    "date": [dt.date(2026, 1, 2)],
    "time": [dt.time(1, 2, 3)],
    "timedelta": [dt.timedelta(-1, 2, 3)],
    "timezone": [dt.timezone(dt.timedelta(hours=1), "lab"), dt.UTC],
    "zone": [BERLIN],
    "uuid": [uuid.UUID(int=7)],
    "path": [pathlib.Path("/a"), pathlib.PurePosixPath("/a/b"), pathlib.PureWindowsPath("c:\\a")],
    "range": [range(1, 9, 2)],
    "slice": [slice(1, None, 2)],
    "ellipsis": [...],
    "enum": [Mode.AC, Mode.AC | Mode.DC, Mode(0)],
    "namedtuple": [Point(1.0, [2.0])],
    "dataclass": [READING],
    "exception": [ValueError("out of range", 3), KeyError("k")],
    "array": [
        np.arange(3.0),
        LARGE,
        np.asfortranarray(np.ones((2, 3), ">i2")),
        np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        np.array([1, "a", None], object),
    ],
    "scalar": [np.float32(1.5), np.int64(3), np.datetime64("2026-01-02")],
    "frame": [pd.DataFrame({"volts": [1.0, None], "name": ["a", None], "on": [True, False]})],
    "series": [pd.Series([1, 2], name="volts")],
    "index": [pd.Index(["a", "b"], name="run"), pd.RangeIndex(3)],
    "timestamp": [pd.Timestamp("2026-01-02 03:04:05.123456789"), pd.Timestamp("2026-01-02", tz=BERLIN)],
    "duration": [pd.Timedelta(1, "ns")],
    "nat": [pd.NaT],
    "na": [pd.NA],
    "quantity": [3 * pint.get_application_registry().volt],
    "unit": [pint.get_application_registry().ohm],
    "pickled": [Limits(1.0), np.ma.masked_array([1.0, 2.0], [True, False])],
    "own": [Trace([1.0])],
}


def same(found: Any, value: Any) -> bool:
    """Whether a value arrived as an equal one of its type."""
    if type(found) is not type(value):
        return False
    if isinstance(value, np.ndarray):
        return found.dtype == value.dtype and repr(found) == repr(value)
    if isinstance(value, Exception):
        return found.args == value.args
    if isinstance(value, Proxy | RemoteReference):
        unit: Any = value
        return bool(found.unit == unit.unit)
    if isinstance(value, pd.DataFrame | pd.Series | pd.Index):
        return bool(found.equals(value)) and repr(found) == repr(value)
    return found is value or bool(found == value)


def wrong(column: int, send: Callable[[Any], Any]) -> dict[str, object]:
    """By line of the page what came of an example that did not arrive as a column says; empty when all did."""
    found: dict[str, object] = {}
    for kind, value in [(kind, value) for kind, values in EXAMPLES.items() for value in values]:
        cell = LINES[kind][column]
        try:
            back = send(value)
        except PzcError as error:
            back = str(error)
            fits = cell == "refused" and bool(REFUSED.search(back))
        else:
            fits = same(back, value) if cell == "same" else cell == f"`{type(back).__name__}`"
        if not fits:
            found[kind] = back
    return found


def test_every_line_of_the_page_has_an_example() -> None:
    assert {*LINES} == {*EXAMPLES, "proxy", "remote"}


BY_COLUMN = pytest.mark.parametrize(
    ("column", "protocol"), [*enumerate([Protocol(KEY), Protocol(""), Protocol("", "json")])], ids=NAMES
)


@BY_COLUMN
def test_arguments_and_results_arrive_as_the_page_says(column: int, protocol: Protocol) -> None:
    bench = Bench()
    with (
        Server(bench, protocol=protocol) as server,
        Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT) as proxy,
    ):

        def there(value: Any) -> Any:
            proxy.back(value)
            return bench.value

        assert not wrong(column, proxy.back)
        assert not wrong(column, there)


def test_what_an_observer_is_given_arrives_as_without_a_key() -> None:
    bench, observer = Bench(), next(key for key in KEYS if key.role is Role.OBSERVER)
    with (
        Server(bench, protocol=Protocol(keyring=Keyring(KEYS, KEYS[-1]))) as server,
        Proxy(
            server.rep_endpoint, protocol=Protocol(keyring=Keyring(KEYS, observer)), timeout=TIMEOUT
        ) as proxy,
    ):

        def given(value: Any) -> Any:
            bench.value = value
            return proxy.last()

        assert not wrong(1, given)


@BY_COLUMN
def test_notifications_arrive_as_without_a_key(column: int, protocol: Protocol) -> None:
    with Agent(protocol=protocol) as source, Agent(protocol=protocol) as reader:
        with reader.subscribe(source.rep_endpoint, "t", transport="unix") as found:
            assert source.wait_for_subscribers("t", timeout=TIMEOUT)

            def heard(value: Any) -> Any:
                source.publish("t", value)
                return found.recv(TIMEOUT).content

            failed = wrong(column or 1, heard)
    # What has no kind is pickled when a key makes readers believe that.
    assert {*failed} == ({"pickled", "own"} if column == 0 else set())
    assert all(same(failed[kind], EXAMPLES[kind][-1]) for kind in failed)


@BY_COLUMN
@pytest.mark.parametrize("kind", ["proxy", "remote"])
def test_a_proxy_and_a_reference_work_where_they_arrive(column: int, protocol: Protocol, kind: str) -> None:
    bench = Bench()
    with (
        Server(bench, protocol=protocol) as server,
        Server(Bench(), protocol=protocol) as another,
        Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT) as proxy,
        Proxy(another.rep_endpoint, protocol=protocol, timeout=TIMEOUT) as other,
    ):
        value = other if kind == "proxy" else other.channel
        back = proxy.back(value)
        assert LINES[kind][column] == "same"
        assert same(back, value)
        assert type(bench.value) is type(value)
