"""What one message of a stranger costs: lines 4.9 to 4.12. The server that gets it is a process of its own."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.contract.rigs import victims
from tests.contract.rigs.victims import Victim, exec_of, inside

MIB = 1 << 20
PRIME = (1 << 61) - 1
"""Integers that differ by multiples of it have one hash."""

home, victim = victims.home, victims.victim


def objects(count: int) -> bytes:
    """Object arrays in each other."""
    name = np.array([None]).__reduce__()[0]
    shared = [inside(pickle.dumps(each, 2)) for each in (name, (np.ndarray, (0,), b"b"), np.dtype("O"))]
    head = b"\x80\x04" + b"".join(each + b"q" + bytes((at,)) + b"0" for at, each in enumerate(shared))
    return head + b"h\0h\1R(K\1K\1\x85h\2\x89]" * count + b"N" + b"atb" * count + b"."


NESTED = {
    "object arrays": (objects(60_000), "pickle"),
    "defaultdicts": (
        b"\x80\x04ccollections\ndefaultdict\nq\x000" + b"h\0)RK\1" * 100_000 + b"N" + b"s" * 100_000 + b".",
        "pickle",
    ),
    "deques": (
        b"\x80\x04ccollections\ndeque\nq\x000" + b"h\0)R" * 100_000 + b"a" * 99_999 + b".", "pickle",
    ),
    "dropped deques": (
        b"\x80\x04ccollections\ndeque\nq\x000" + b"h\0)R" * 100_000 + b"a" * 99_999 + b"0N.", "pickle",
    ),
    "lists": (b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".", "pickle"),
    "json": (b"[" * 100_000 + b"]" * 100_000, "json"),
    "json object arrays": (
        b'{"__pzc__":"objects","value":[[1],[' * 50_000 + b"1" + b"]]}" * 50_000, "json",
    ),
    "msgpack": (b"\x91" * 100_000 + b"\xc0", "msgpack"),
}  # fmt: skip


@pytest.mark.parametrize("what", NESTED)
def test_what_is_nested_deeply_ends_no_process(victim: Victim, what: str) -> None:
    assert victim.ask(*NESTED[what]) is not None
    assert victim.works()


class Record:
    """A record array whose item is a range."""

    def __reduce__(self) -> tuple[Any, ...]:
        kind = np.dtype([("a", "O", (3,))])
        make = np.array([None]).__reduce__()[0]
        return make, (np.ndarray, (0,), b"b"), (1, (1,), kind, False, [(range(2 * 10**7),)])


LARGE: dict[str, Callable[[], bytes]] = {
    "range as arguments": lambda: exec_of(pickle.dumps(range(2 * 10**7), 2)),
    "range in a record": lambda: pickle.dumps(Record(), 2),
}


@pytest.mark.parametrize("what", LARGE)
def test_a_short_message_takes_no_gigabytes(victim: Victim, what: str) -> None:
    victim.begin_peak()
    body, before = LARGE[what](), victim.peak()
    assert len(body) < 512
    assert victim.ask(body) is not None
    assert victim.peak() - before < 200 * MIB
    assert victim.works()


def doubled(times: int) -> bytes:
    """A list that holds the list before it twice, and so on."""
    steps = b"".join(b"0](h%bh%be\x94" % (bytes((at,)), bytes((at,))) for at in range(times))
    return b"\x80\x04]K\1a\x94" + steps + b"."


def costs(victim: Victim, body: bytes, serializer: str = "pickle") -> float:
    """Seconds of computing that a message takes the server."""
    before = victim.cpu()
    assert victim.ask(body, serializer) is not None
    return victim.cpu() - before


@pytest.mark.parametrize("where", ["batch", "control word", "member"])
def test_a_value_that_unfolds_without_end_is_not_printed(victim: Victim, where: str) -> None:
    bomb = inside(doubled(26))
    words = ("PSMessage", "batch", "calls", "pzc", "placed", "mark", "exec", "name")
    text = {word: inside(pickle.dumps(word, 2)) for word in words}
    bodies = {
        "batch": text["PSMessage"] + text["batch"] + b"}" + text["calls"] + b"]" + bomb + b"\x85as\x87",
        "control word": b"}(" + text["pzc"] + text["placed"] + text["mark"] + bomb + b"u",
        "member": text["PSMessage"] + text["exec"] + b"}" + text["name"] + bomb + b"s\x87",
    }
    body = b"\x80\x04" + bodies[where] + b"."
    assert len(body) < 512
    assert costs(victim, body) < 2
    assert victim.works()


def keys(count: int) -> list[int]:
    return [n * PRIME for n in range(count)]


KEYS = [inside(pickle.dumps(key, 2)) for key in keys(30_000)]


def many_tuples() -> bytes:
    """A MessagePack map with arrays as keys, whose hashes are all equal."""
    same = [each for each in (n * PRIME + 1 for n in range(-4, 9)) if -(1 << 63) <= each < 1 << 64]
    packed = [
        (b"\xcf" + each.to_bytes(8)) if each >= 0 else b"\xd3" + each.to_bytes(8, signed=True)
        for each in same
    ]
    some = list(itertools.islice(itertools.product(packed, repeat=5), 40_000))
    return b"\xdf" + len(some).to_bytes(4) + b"".join(b"\x95" + b"".join(each) + b"\xc0" for each in some)


EQUAL: dict[str, Callable[[], tuple[bytes, str]]] = {
    "dict": lambda: (b"\x80\x04}(" + b"N".join(KEYS) + b"Nu.", "pickle"),
    "one by one": lambda: (b"\x80\x04}" + b"Ns".join(KEYS) + b"Ns.", "pickle"),
    "set": lambda: (b"\x80\x04\x8f(" + b"".join(KEYS) + b"\x90.", "pickle"),
    "made set": lambda: (b"\x80\x04cbuiltins\nset\n](" + b"".join(KEYS) + b"e\x85R.", "pickle"),
    "tuples": lambda: (b"\x80\x04}(" + b"\x85N".join(KEYS) + b"\x85Nu.", "pickle"),
    "json set": lambda: (json.dumps({"__pzc__": "set", "value": keys(30_000)}).encode(), "json"),
    "json dict": lambda: (
        json.dumps({"__pzc__": "dict", "value": [[key, 0] for key in keys(30_000)]}).encode(), "json",
    ),
    "msgpack": lambda: (many_tuples(), "msgpack"),
}  # fmt: skip


@pytest.mark.parametrize("what", EQUAL)
def test_keys_of_equal_hashes_take_no_time(victim: Victim, what: str) -> None:
    body, serializer = EQUAL[what]()
    assert costs(victim, body, serializer) < 2
    assert victim.works()
