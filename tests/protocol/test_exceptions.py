"""Exceptions on their way: themselves where their class is, a `RemoteError` of the nearest kind where it is not."""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import exceptions
from pzc.protocol.errors import DecodeError, PzcError, RemoteError
from pzc.protocol.exceptions import MOST
from pzc.protocol.serializers import decode, encode

BUILTIN = [
    ValueError("too high", 3), KeyError("k"), OSError(2, "no file", "/a"), UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
    StopIteration(3), Exception(), TimeoutError("t"), ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
]  # fmt: skip


class Tripped(RuntimeError):
    """Takes other arguments than it keeps."""

    def __init__(self, channel: int, *, volts: float) -> None:
        super().__init__(f"channel {channel} at {volts} V")
        self.channel, self.volts = channel, volts


class Mute(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Guarded(Exception):
    """Runs code when its attribute is set."""

    limit = property(lambda _: 0, lambda _, value: ran.append(value))


class Made(ValueError):
    """Runs code when it is made."""

    def __new__(cls, *args: object) -> Made:
        ran.append(args)
        return super().__new__(cls, *args)


ran: list[object] = []


def sent(error: BaseException, serializer: str = "msgpack") -> Any:
    """An exception as its receiver has it."""
    return exceptions.read(decode(serializer, encode(serializer, exceptions.write(error)), trusted=False))


def form(**fields: object) -> dict[str, object]:
    return {
        "type": "builtins.ValueError",
        "base": "ValueError",
        "text": "x",
        "notes": [],
        "more": b"",
        **fields,
    }


@pytest.mark.parametrize("error", BUILTIN, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("serializer", ["msgpack", "json"])
def test_an_exception_of_python_comes_back(error: Exception, serializer: str) -> None:
    found = sent(error, serializer)
    assert (type(found), str(found), repr(found.args)) == (type(error), str(error), repr(error.args))


def test_an_exception_of_ones_own_comes_back_without_its_constructor() -> None:
    found = sent(Tripped(2, volts=31.0))
    assert (type(found), found.channel, found.volts, str(found)) == (Tripped, 2, 31.0, "channel 2 at 31.0 V")


def test_notes_cause_and_context_come_back() -> None:
    error = ValueError("x")
    error.add_note("at room B12")
    error.__cause__, error.__context__ = KeyError("cause"), TypeError("context")
    found = sent(error)
    assert found.__notes__ == ["at room B12"]
    assert (repr(found.__cause__), repr(found.__context__)) == ("KeyError('cause')", "TypeError('context')")
    assert found.__suppress_context__


def test_members_of_a_group_come_back_with_theirs() -> None:
    inner = ExceptionGroup("inner", [Tripped(1, volts=2.0)])
    found = sent(ExceptionGroup("outer", [inner, ValueError("x")]))
    assert found.exceptions[0].exceptions[0].channel == 1
    assert repr(found.exceptions[1]) == "ValueError('x')"


def test_causes_that_go_round_end() -> None:
    error = ValueError("x")
    error.__cause__ = error.__context__ = error
    assert str(sent(error)) == "x"


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a receiver without the class makes of an exception."""
    module = ModuleType("only_at_the_sender")
    cls = type("Broken", (ConnectionResetError,), {"__module__": module.__name__})
    module.Broken = cls  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    written = exceptions.write(cls("no beam"))
    monkeypatch.delitem(sys.modules, module.__name__)
    return exceptions.read(written)


def test_a_class_that_is_gone_becomes_a_remote_error_of_the_nearest_kind(gone: Any) -> None:
    assert isinstance(gone, RemoteError)
    assert isinstance(gone, ConnectionResetError)
    assert gone.type_name == "only_at_the_sender.Broken"
    assert "no beam" in str(gone)


def test_such_a_remote_error_can_be_pickled(gone: Any) -> None:
    back = pickle.loads(pickle.dumps(gone))
    assert (type(back), str(back), back.type_name) == (type(gone), str(gone), gone.type_name)


def test_an_exception_that_cannot_say_what_it_is_arrives() -> None:
    assert exceptions.write(Mute())["text"] == "<no text: RuntimeError>"
    assert type(sent(Mute())) is Mute


def test_an_argument_without_a_kind_arrives_as_what_it_looks_like() -> None:
    (argument,) = sent(ValueError(object())).args
    assert argument == "<object>"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x" * 10 * MOST), ValueError(b"x" * 10 * MOST), ValueError(*range(MOST)), ValueError([0] * 10 * MOST),
        ExceptionGroup("many", [ValueError("x" * 1000) for _ in range(500)]),
    ],
    ids=["text", "bytes", "arguments", "list", "group"],
)  # fmt: skip
def test_what_is_large_is_cut_and_class_and_text_arrive(error: Exception) -> None:
    assert len(encode("msgpack", exceptions.write(error))) < 3 * MOST
    found = sent(error)
    assert isinstance(found, ValueError | ExceptionGroup | RemoteError)
    assert str(error)[:100] in f"{found} {getattr(found, '__notes__', '')}"


@pytest.mark.parametrize("name", ["Guarded", "Made"])
def test_no_code_of_the_class_runs(name: str) -> None:
    ran.clear()
    more = encode("msgpack", [["x"], {"limit": 3}, None, None, False, []])
    found = exceptions.read(form(type=f"{__name__}.{name}", more=more))
    assert isinstance(found, Guarded if name == "Guarded" else RemoteError)
    assert not ran


@pytest.mark.parametrize("name", ["builtins.SystemExit", "os.system", "builtins.int", "nowhere.X", "", 7])
def test_a_name_of_no_exception_becomes_a_remote_error(name: object) -> None:
    assert type(exceptions.read(form(type=name, base="nonsense"))) is RemoteError


@pytest.mark.parametrize(
    "given",
    [
        None, 7, [], {}, {"type": "builtins.ValueError"}, form(notes=range(1 << 60)), form(notes="text"),
        form(more=encode("msgpack", [range(1 << 60), {}, None, None, False, []])),
        form(more=encode("msgpack", [["x"], {}, None, None, False, range(1 << 60)])),
        form(more=encode("msgpack", [["x"], {}, 7, None, False, []])),
    ],
    ids=lambda each: repr(each)[:40],
)  # fmt: skip
def test_a_hostile_form_is_refused(given: object) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, DecodeError)):
        exceptions.read(given)


@given(
    st.dictionaries(
        st.sampled_from(["type", "base", "text", "notes"]), st.text() | st.integers() | st.lists(st.text())
    ),
    st.binary(),
)
def test_any_form_makes_an_exception_or_an_error_that_callers_expect(
    fields: dict[str, Any], more: bytes
) -> None:
    with suppress(ValueError, TypeError, KeyError, PzcError):
        assert isinstance(exceptions.read(form(**fields, more=more)), Exception)
