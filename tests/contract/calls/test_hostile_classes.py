"""Contents of strangers that name classes and functions: nothing of these runs."""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
import pytest
import zmq

from pzc import Key, Keyring, Protocol, Role, Server

pack = msgspec.msgpack.encode


def kind(name: str, parts: Any) -> Any:
    """A value of a kind, as it travels."""
    return msgspec.msgpack.Ext(1, pack([name, parts]))


def error(**fields: Any) -> Any:
    """An exception as it travels."""
    form = {"type": "builtins.ValueError", "base": "ValueError", "text": "", "notes": [], "more": b""}
    return form | fields


class Ran:
    """What ran of the classes below."""

    found: ClassVar[list[str]] = []


class Marked(enum.Enum):
    """An enum that looks for missing values."""

    ONE = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        Ran.found.append("_missing_")
        return None


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A frozen dataclass whose constructor does something."""

    volts: float = 0.0

    def __post_init__(self) -> None:
        Ran.found.append("__post_init__")


class Plain:
    """No value at all."""

    def __init__(self, *_: object) -> None:
        Ran.found.append("__init__")


class Named(NamedTuple("Named", [("volts", float)])):
    """A named tuple with a constructor."""

    def __new__(cls, volts: float) -> Named:
        Ran.found.append("__new__")
        return super().__new__(cls, volts)


class Odd(Exception):
    """An exception that does something when it is made."""

    def __new__(cls, *args: object) -> Odd:
        Ran.found.append("__new__")
        return super().__new__(cls, *args)


class Careful(Exception):
    """An exception that does something when it is set up, and when an attribute is set."""

    def __init__(self, *args: object) -> None:
        Ran.found.append("__init__")
        super().__init__(*args)

    @property
    def volts(self) -> float:
        return 0.0

    @volts.setter
    def volts(self, value: float) -> None:
        Ran.found.append("setter")


HERE = __name__
NAMES = [
    "os.system",
    "posix.system",
    "subprocess.Popen",
    "builtins.eval",
    "pathlib.Path",
    f"{HERE}.Ran.found",
]
NAMES += [f"{HERE}.{each.__name__}" for each in (Marked, Frozen, Plain, Named, Odd, Careful)]
STATE = pack([["echo x"], {"volts": 1.0, "args": [1], "__class__": 2}, None, None, False, []])
FORMS: dict[str, Callable[[str], Any]] = {
    "enum": lambda name: kind("enum", [name, []]),
    "enum by a member": lambda name: kind("enum", [name, ["ONE"]]),
    "namedtuple": lambda name: kind("namedtuple", [name, ["echo x"]]),
    "dataclass": lambda name: kind("dataclass", [name, {"volts": 1.0}]),
    "exception": lambda name: kind("exception", error(type=name, more=STATE)),
    "unknown": lambda name: kind(name, ["echo x"]),
}


class Bench:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self._secret = "of the bench"
        self.given: list[Any] = []

    def echo(self, value: Any) -> bool:
        self.given.append(value)
        return True


def ask(server: Server, frames: list[Any]) -> list[bytes]:
    """What a raw REQ socket gets for frames."""
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(server.rep_endpoint)
        socket.send_multipart(frames)
        assert socket.poll(10_000)
        return socket.recv_multipart()


def call(value: Any) -> list[Any]:
    return ["PSMessage", "exec", {"name": "echo", "method": "__call__", "args": [value], "kwargs": {}}]


def send(server: Server, content: bytes, serializer: str) -> list[bytes]:
    frames = Protocol("").encode("0" * 32, "", None, receiver=server.agent_id)
    return ask(server, [frames[0], serializer.encode(), content, *frames[3:]])


@pytest.mark.parametrize("form", FORMS)
def test_a_kind_that_names_a_class_runs_nothing_of_it(form: str) -> None:
    Ran.found.clear()
    bench = Bench()
    with Server(bench, protocol=Protocol("")) as server:
        for name in NAMES:
            send(server, pack(call(FORMS[form](name))), "msgpack")
    assert Ran.found == []
    assert not any(isinstance(each, Plain | Marked) for each in bench.given if form == "enum")


def test_a_reference_that_is_forged_as_a_dataclass_reaches_nothing_private() -> None:
    bench = Bench()
    with Server(bench, protocol=Protocol("")) as server:
        fields = {"agent_id": server.agent_id, "path": ["_secret"], "held": None}
        send(server, pack(call(kind("dataclass", ["pzc.agents.references.Reference", fields]))), "msgpack")
        send(server, pack(call(kind("reference", f"{server.agent_id} _secret"))), "msgpack")
    assert "of the bench" not in bench.given


class Gadget:
    """A pickle of it makes a folder."""

    def __init__(self, *reduced: Any) -> None:
        self._reduced = reduced

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


def gadgets(path: Path) -> list[Gadget]:
    """Would make a folder."""
    code = f"__import__('os').mkdir({str(path)!r})"
    return [
        Gadget(eval, (code,)),
        Gadget(exec, (code,)),
        Gadget(os.mkdir, (str(path),)),
        Gadget(subprocess.call, (["mkdir", str(path)],)),
        Gadget(functools.partial(os.mkdir, str(path)), ()),
        Gadget(operator.methodcaller("mkdir"), (path,)),
    ]


def by_hand(path: Path) -> list[bytes]:
    """The same with opcodes that Python does not write any more."""
    name = b"\x80\x04\x8c\x05posix\x8c\x05mkdir\x93"
    text = f"V{path}\n".encode()
    return [
        b"cposix\nmkdir\n(" + text + b"tR.",
        b"(" + text + b"iposix\nmkdir\n.",
        b"(cposix\nmkdir\n" + text + b"o.",
        name + text + b"\x85R.",
        name + text + b"\x85\x81.",
        b"cbuiltins\nValueError\n)R}V__setstate__\ncposix\nmkdir\nsb" + text + b"b.",
        b"cbuiltins\nValueError.__class__\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x14ValueError.__class__\x93.",
    ]


@pytest.mark.parametrize("dialect", ["PZC01", "PZC00"])
def test_no_gadget_runs_without_a_key(tmp_path: Path, dialect: str) -> None:
    folder, speaks = tmp_path / "made", Protocol("", dialect=dialect)
    pickles = [pickle.dumps(call(each), protocol) for each in gadgets(folder) for protocol in (0, 2, 5)]
    with Server(Bench(), protocol=Protocol("")) as server:
        for body in pickles + by_hand(folder):
            raw = speaks.encode("0" * 32, "", None, receiver=server.agent_id)
            ask(server, [raw[0], b"pickle", body, *raw[3:]])
            assert not folder.exists(), body


def test_no_gadget_runs_by_an_observers_key(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    keys = [Key(f"a long secret of the {role.name}", role.name.lower(), role) for role in Role]
    observer = next(key for key in keys if key.role is Role.OBSERVER)
    speaks = Protocol(keyring=Keyring(keys, observer))
    with Server(Bench(), protocol=Protocol(keyring=Keyring(keys, keys[-1]))) as server:
        for each in gadgets(folder):
            content = call(each)
            ask(server, speaks.encode("0" * 32, "", content, receiver=server.agent_id, serializer="pickle"))
            assert not folder.exists()
