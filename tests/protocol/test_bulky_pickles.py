"""Large texts and bytes are pickled without being copied several times, to the same effect."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.protocol import contents, pickles, serializers

LARGE = pickles.BULKY + 1
PROTOCOL = pickle.HIGHEST_PROTOCOL

sizes = st.sampled_from([0, 1, LARGE - 1, LARGE, 3 * LARGE])
bulks = st.one_of(
    sizes.map(lambda size: b"\x80" * size),
    sizes.map(lambda size: "é" * size),
    sizes.map(bytearray),
    st.integers(),
)
some_contents = st.one_of(
    bulks,
    st.lists(bulks, max_size=4),
    st.lists(bulks, max_size=4).map(tuple),
    st.dictionaries(st.text(max_size=3), bulks, max_size=4),
)


@given(some_contents, st.sampled_from([0, 2, 3, 4, 5]), st.booleans())
def test_pieces_behind_one_another_are_the_pickle(content: Any, protocol: int, given_memory: bool) -> None:
    made = pickles.joined(pickles.pieces(content, protocol), bytearray if given_memory else None)
    assert pickle.loads(made) == content


@pytest.mark.parametrize("name", ["pickle", "pickle3"])
def test_what_is_bulky_is_written_into_the_memory_that_is_given(name: str) -> None:
    memory = bytearray(2 * LARGE)
    content = ("frame", b"x" * LARGE)
    made = serializers.encode(name, content, lambda size: memory)
    assert isinstance(made, memoryview)
    assert made.obj is memory
    assert pickle.loads(made) == content


def test_bytes_beside_a_large_array_go_into_the_pickle_of_one_frame() -> None:
    content = {"jpeg": b"x" * LARGE, "raw": np.arange(LARGE)}
    name, made = serializers.encode_arrays(content)
    found: Any = serializers.decode(name, made, trusted=True)
    assert name == "buffers"
    assert found["jpeg"] == content["jpeg"]
    assert np.array_equal(found["raw"], np.arange(LARGE))


def test_a_long_list_is_not_looked_through() -> None:
    assert not pickles.is_bulky([b"x" * LARGE] * 100)
    assert pickles.is_bulky([b"x" * LARGE])


@pytest.mark.parametrize(
    ("action", "carried", "bulky"),
    [
        ("exec", {"name": "put", "args": (1, b"x" * LARGE)}, True),
        ("exec", {"name": "put", "args": (1, 2)}, False),
        ("setattr", {"name": "image", "value": "x" * LARGE}, True),
        ("return", b"x" * LARGE, True),
        ("return", np.arange(LARGE), False),
        ("return", {"value": np.arange(4)}, False),
    ],
)
def test_what_a_call_takes_and_gives_is_looked_at(action: str, carried: Any, bulky: bool) -> None:
    assert contents.is_bulky(contents.ps_message(action, carried)) is bulky
