from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.agents.stub import MAX_TEXT, SourceText, signature_of


def _signature(text: str) -> inspect.Signature:
    signature = signature_of(text)
    assert signature is not None
    return signature


@pytest.mark.parametrize(
    "text",
    [
        "()",
        "() -> None",
        "(volts: float, steps: int = 10) -> None",
        "(a, b=2, /, c: 'later' = 3, *rest: int, fast: bool = False, slow, **more: numpy.ndarray)",
        "(*, when: datetime.datetime | None = None) -> collections.abc.Iterator[int]",
        "(x=-1, y=(1, 2), z={'a': [None]}, t='x')",
    ],
)
def test_a_signature_shows_itself_as_it_was_told(text: str) -> None:
    assert str(_signature(text)) == text


def test_kinds_and_defaults_are_those_of_the_remote_method() -> None:
    def remote(a, b=2, /, c=3.5, *args, d, e="x", **kwargs): ...

    assert _signature(str(inspect.signature(remote))) == inspect.signature(remote)


def test_arguments_bind_as_the_remote_method_takes_them() -> None:
    signature = _signature("(volts: float, *, steps: int = 10)")
    assert signature.bind(3.0, steps=2).arguments == {"volts": 3.0, "steps": 2}
    with pytest.raises(TypeError, match="too many positional arguments"):
        signature.bind(3.0, 2)


@pytest.mark.parametrize("default", ["Path('/')", "units.Color.RED", "inf", "x if y else z", "..."])
def test_a_default_that_is_no_literal_shows_its_text(default: str) -> None:
    value = _signature(f"(a={default})").parameters["a"].default
    assert isinstance(value, SourceText)
    assert repr(value) == default


def test_nothing_is_evaluated() -> None:
    signature = _signature("(a=exit(), b: exit()=__import__('os')) -> exit()")
    assert str(signature) == "(a=exit(), b: exit() = __import__('os')) -> exit()"


@pytest.mark.parametrize(
    "text",
    [
        "", "(...)", "x", "(", "(a, a)", "(a=1, b)", "(*, a) ->", "(): pass\nimport os\ndef f()", "(a): import os; (b",
        "(1)", "(class)", "(a" + "(" * 1000, "(a=0x" + "f" * 3900 + ")", "(a\0)",
        "(a: '\ud800')", "(a" + " " * MAX_TEXT + ")", None, 3, b"(a)", ["(a)"],
    ],
)  # fmt: skip
def test_what_is_no_signature_gives_none(text: object) -> None:
    assert signature_of(text) is None


def test_a_default_that_is_deeper_than_a_parser_goes_ends_no_reader() -> None:
    """How deep that is depends on the interpreter."""
    signature = signature_of("(a=" + "-" * 3000 + "1)")
    assert signature is None or list(signature.parameters) == ["a"]


@given(st.text(max_size=30))
def test_no_text_raises(text: str) -> None:
    for written in (text, f"({text})", f"(a={text})", f"(a: {text})", f"() -> {text}"):
        signature = signature_of(written)
        assert signature is None or str(signature).startswith("(")
