from __future__ import annotations

import builtins
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from pzc.protocol import errors
from pzc.protocol.errors import DecodeError, SerializerRefused
from pzc.protocol.unpickle import register_class, restricted_loads

from tests.protocol import pickling
from tests.protocol.pickling import PROTOCOLS, Point, Row, call, inner, name, text

MIB = 1 << 20


class Stranger:
    pass


class Creates:
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_that_would_create_a_file_creates_none(tmp_path: pathlib.Path, protocol: int) -> None:
    target = tmp_path / "made"
    with pytest.raises(SerializerRefused, match="open"):
        restricted_loads(pickle.dumps(Creates(target), protocol))
    assert not target.exists()


def test_the_refusal_names_the_class_and_the_remedy() -> None:
    with pytest.raises(SerializerRefused, match=r"Stranger.*register_class"):
        restricted_loads(pickle.dumps(Stranger()))


FORBIDDEN = """
    module:attribute builtins:eval builtins:exec builtins:__import__ builtins:print builtins:setattr
    builtins:type builtins:map builtins:KeyboardInterrupt builtins:SystemExit builtins:BaseException
    os:system posix:system subprocess:Popen copyreg:add_extension numpy:load numpy:memmap
    numpy:frombuffer numpy._core.multiarray:fromfile pickle:loads _codecs:decode pathlib:Path
    functools:partial operator:attrgetter zoneinfo:reset_tzpath builtins:int.__subclasses__
    builtins:str.format builtins:dict.fromkeys datetime:datetime.now datetime:sys.modules
    json:codecs.open decimal:Decimal.__init__.__globals__ uuid:os.system :
"""


@pytest.mark.parametrize("text", FORBIDDEN.split())
def test_a_name_outside_the_table_is_refused(text: str) -> None:
    module, attribute = text.split(":")
    with pytest.raises(SerializerRefused):
        restricted_loads(b"\x80\x04" + name(module, attribute) + b".")


def test_refusing_a_name_imports_nothing() -> None:
    sys.modules.pop("this", None)
    with pytest.raises(SerializerRefused):
        restricted_loads(b"cthis\ns\n.")
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "data",
    [
        call("builtins", "bytearray", 10**12),
        call("builtins", "bytes", 10**12),
        call("builtins", "set", range(10**10)),
        call("builtins", "frozenset", range(10**10)),
        call("builtins", "list", range(10**10)),
        call("collections", "deque", range(10**10)),
        call("collections", "Counter", range(10**10)),
        call("builtins", "SyntaxError", "x", range(10**10)),
        call("builtins", "ExceptionGroup", "x", range(10**10)),
        call(pickling.__name__, "Row", range(10**10)),
        call("_codecs", "encode", "x" * 100, "zlib"),
        call("_codecs", "encode", b"x", "zlib"),
        call("fractions", "Fraction", "1e999999999"),
        call("fractions", "Fraction", "9" * 4301),
        call("decimal", "Decimal", "9" * 4301),
        call("numpy", "ndarray", (10**12,)),
        call("numpy._core.multiarray", "_reconstruct", dict, (10**12,), b"b"),
        call("numpy._core.numeric", "_frombuffer", b"", np.dtype("u1"), (10**12,), "C"),
        call("numpy._core.numeric", "_frombuffer", b"", np.dtype("V0"), (10**12,), "C"),
        call("numpy._core.numeric", "_frombuffer", bytes(8), np.dtype("O"), (1,), "C"),
        call("numpy._core.multiarray", "scalar", np.dtype("O"), bytes(8)),
        call("numpy._core.multiarray", "scalar", np.dtype("f8"), bytes(4)),
        call("collections", "defaultdict", bytearray),
        call("builtins", "getattr", "", "__class__"),
        call("builtins", "getattr", dict, "mro"),
        call("copyreg", "_reconstructor", dict, object, None),
        call("copyreg", "_reconstructor", Row, list, range(10**10)),
        call("builtins", "float", "1"),
        call("builtins", "object"),
        b"\x80\x04X\xff\xff\xff\x7fab.",
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"ab.",
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"ab.",
        b"\x80\x05\x96" + struct.pack("<Q", (1 << 64) - 1) + b"ab.",
        b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"N.",
        b"\x80\x02\x8b" + struct.pack("<i", -5) + b"N.",
        b"\x80\x02\x8b" + struct.pack("<i", 1 << 16) + bytes(1 << 16) + b".",
        b"I" + b"9" * 5000 + b"\n.",
        b"\x80\x06N.",
        b"(ios\nsystem\n.",
        b"(cbuiltins\nValueError\no.",
        b"Pid\n.",
        b"NQ.",
        b"\x82\x01.",
        b"N2\x86.",
        b"\x80\x05\x97.",
        b"NN.",
        b"(N.",
        b".",
        b"",
    ],
    ids=lambda data: repr(data[:60]),
)
def test_a_hostile_pickle_is_refused_cheaply(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((DecodeError, SerializerRefused)):
            restricted_loads(data)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_a_huge_memo_index_costs_no_memory() -> None:
    tracemalloc.start()
    try:
        assert restricted_loads(b"\x80\x02Nr\xff\xff\xff\xff.") is None
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("element", "function"),
    [(b"\x8d", name("_codecs", "encode")), (b"\x8e", name("builtins", "bytearray"))],
)
def test_copies_of_one_large_argument_run_out_of_budget(element: bytes, function: bytes) -> None:
    size = 100_000
    large = element + struct.pack("<Q", size) + b"x" * size
    args = large + (text("latin1") + b"\x86" if element == b"\x8d" else b"\x85")
    data = b"\x80\x04" + function + b"\x940" + args + b"\x940(" + b"h\x00h\x01R" * 1000 + b"t."
    with pytest.raises(DecodeError, match="size justifies"):
        restricted_loads(data)


def test_fractions_of_two_large_numbers_run_out_of_budget() -> None:
    numbers = [b"\x8b" + struct.pack("<i", 4096) + bytes([odd] * 4095) + b"\x01" for odd in (0x35, 0x57)]
    data = b"\x80\x04" + numbers[0] + b"\x940" + numbers[1] + b"\x940" + name("fractions", "Fraction")
    with pytest.raises(DecodeError, match="size justifies"):
        restricted_loads(data + b"\x940(" + b"h\x02h\x00h\x01\x86R" * 1000 + b"t.")


def chain(depth: int, build: bytes) -> bytes:
    """Opcodes of a value in which each level holds the one below twice; leaves it on the stack."""
    opcodes = b")\x94"
    for level in range(depth):
        opcodes += b"0" + b"h" + bytes([level]) + b"h" + bytes([level]) + build + b"\x94"
    return opcodes


def lists(depth: int) -> bytes:
    """As `chain`, of lists."""
    opcodes = b"]\x94"
    for level in range(depth):
        opcodes += b"0](" + b"h" + bytes([level]) + b"h" + bytes([level]) + b"e\x94"
    return opcodes


def test_hashing_a_tuple_that_unfolds_without_end_is_refused() -> None:
    with pytest.raises(DecodeError, match="size justifies"):
        restricted_loads(b"\x80\x04}" + chain(60, b"\x86") + b"Ns.")


def test_a_tuple_that_is_shared_a_few_times_is_fine() -> None:
    assert restricted_loads(b"\x80\x04" + chain(12, b"\x86") + b".") is not None


def test_a_tuple_that_unfolds_without_end_is_refused() -> None:
    with pytest.raises(DecodeError, match="unfolded"):
        restricted_loads(b"\x80\x04" + chain(60, b"\x86") + b".")


def test_hashing_two_equal_frozensets_that_unfold_without_end_is_refused() -> None:
    opcodes = b"\x80\x04}("
    index = 0
    for _ in range(2):
        opcodes += b")\x94"
        index += 1
        for _ in range(60):
            last = b"j" + struct.pack("<I", index - 1)
            opcodes += b"0(" + last + b"K\x01\x86" + last + b"K\x02\x86\x91\x94"
            index += 1
        opcodes += b"N"
    with pytest.raises(DecodeError, match="size justifies"):
        restricted_loads(opcodes + b"u.")


CONSTRUCTORS = [
    name("pzc.protocol.errors", "LockedBy") + b"(%bt",
    name("pzc.protocol.errors", "LockedBy") + b"(" + text("x") + b"G" + bytes(8) + b"%bt",
    name("pzc.protocol.errors", "RemoteError") + b"(%b" + text("x") + b"t",
    name("pzc.protocol.errors", "RemoteError") + b"(" + text("x") + b"%bt",
    name("json.decoder", "JSONDecodeError") + b"(%b" + text("x") + b"K\x00t",
    name(pickling.__name__, "Mode") + b"(%bt",
    name("builtins", "getattr") + b"(" + name(pickling.__name__, "Mode") + b"%bt",
]


@pytest.mark.parametrize("shared", [chain(60, b"\x86"), lists(60)], ids=["tuples", "lists"])
@pytest.mark.parametrize("opcodes", CONSTRUCTORS, ids=repr)
def test_no_constructor_unfolds_what_is_shared(opcodes: bytes, shared: bytes) -> None:
    with pytest.raises((DecodeError, SerializerRefused)):
        restricted_loads(b"\x80\x04" + opcodes.replace(b"%b", shared) + b"R.")


def test_names_of_a_record_are_not_hashed_before_they_are_known_to_be_texts() -> None:
    dtype = name("numpy", "dtype") + b"(" + text("V8") + b"\x89\x88tR"
    state = b"(K\x03" + text("|") + b"N(" + chain(60, b"\x86") + b"t}K\x08K\x01K\x10t"
    with pytest.raises(DecodeError, match="must be strings"):
        restricted_loads(b"\x80\x04" + dtype + state + b"b.")


def test_a_class_of_very_many_parts_is_not_looked_for_part_by_part() -> None:
    with pytest.raises(SerializerRefused):
        restricted_loads(b"c" + b"a." * 1_000_000 + b"a\nb\n.")


@pytest.mark.parametrize("wrap", [b"\x85", b"K\x01\x86"], ids=["alone", "beside"])
def test_tuples_nested_too_deeply_to_hash_are_refused(wrap: bytes) -> None:
    with pytest.raises(DecodeError, match="deep"):
        restricted_loads(b"\x80\x04})" + wrap * 100_000 + b"Ns.")


def test_named_tuples_nested_too_deeply_to_hash_are_refused() -> None:
    opcodes = b"\x80\x04}" + name(pickling.__name__, "Pair") + b"\x940"
    opcodes += b"h\x00NN\x86\x81\x940"
    for index in range(1, 1000):
        opcodes += b"h\x00j" + struct.pack("<I", index) + b"N\x86\x81\x940"
    with pytest.raises(DecodeError, match="deep"):
        restricted_loads(opcodes + b"Ns.")


def test_deeply_nested_lists_do_not_overflow_the_stack() -> None:
    back = restricted_loads(b"\x80\x04" + b"]" * 200 + b"a" * 199 + b".")
    assert isinstance(back, list)
    with pytest.raises(DecodeError, match="nested"):
        restricted_loads(b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".")


@pytest.mark.parametrize(
    ("target", "state"),
    [
        (("builtins", "ValueError"), {"x": 1}),
        (("collections", "OrderedDict"), {"x": 1}),
        (("numpy", "ndarray"), {"x": 1}),
        (("numpy", "dtype"), (3, ">", None, None, None, -1, -1, 0)),
        ((pickling.__name__, "Point"), {"x": 1}),
        ((pickling.__name__, "Mode"), {"x": 1}),
    ],
)
def test_the_state_of_a_class_cannot_be_set(target: tuple[str, str], state: object) -> None:
    with pytest.raises(SerializerRefused):
        restricted_loads(b"\x80\x04" + name(*target) + inner(state) + b"b.")
    assert not hasattr(ValueError, "x")
    assert "x" not in vars(Point)


def test_a_zone_is_not_called() -> None:
    with pytest.raises(SerializerRefused):
        restricted_loads(call("zoneinfo", "ZoneInfo", "UTC"))


@pytest.mark.parametrize("key", ["../../etc/passwd", "/etc/passwd", "no/such", "", "\0", "a" * 5000])
def test_a_zone_is_one_of_the_data_base(key: str) -> None:
    with pytest.raises(DecodeError):
        restricted_loads(
            b"\x80\x04" + name("builtins", "getattr") + b"(" + name("zoneinfo", "ZoneInfo")
            + text("_unpickle") + b"tR" + inner((key, True)) + b"R."
        )  # fmt: skip


@pytest.mark.parametrize(
    "state",
    [
        {"__class__": KeyError},
        {"args": range(10**10)},
        {"args": ("y",)},
        {"__notes__": range(10**10)},
        {"__traceback__": None},
        {"__cause__": 1},
        {"with_traceback": 1},
        {"add_note": 1},
        {1: 2},
        [1],
        None,
    ],
    ids=repr,
)
def test_the_state_of_an_exception_holds_plain_attributes_only(state: object) -> None:
    with pytest.raises(DecodeError):
        restricted_loads(call("builtins", "ValueError", "x")[:-1] + inner(state) + b"b.")


@pytest.mark.parametrize("state", [{"__class__": int}, (None, {"__class__": int}), {1: 2}], ids=repr)
def test_the_state_of_a_registered_object_holds_plain_attributes_only(state: object) -> None:
    with pytest.raises(DecodeError):
        restricted_loads(b"\x80\x04" + name(pickling.__name__, "Point") + b")\x81" + inner(state) + b"b.")


def test_a_dtype_singleton_is_never_changed() -> None:
    data = b"\x80\x04" + name("numpy", "dtype") + inner(("f8", False, False)) + b"R"
    back = restricted_loads(data + inner((3, ">", None, None, None, -1, -1, 0)) + b"b.")
    assert back == np.dtype(">f8")
    assert np.dtype("f8").byteorder == "="


def test_a_dtype_cannot_change_under_an_array() -> None:
    small = name("numpy", "dtype") + inner(("V1", False, True)) + b"R\x94"
    with pytest.raises((DecodeError, SerializerRefused)):
        restricted_loads(
            b"\x80\x05("
            + small
            + name("numpy._core.numeric", "_frombuffer")
            + b"(C\x01xh\x00K\x01\x85\x8c\x01CtR"
            + b"h\x00"
            + inner((3, "|", None, None, None, 4096, 1, 0))
            + b"bt."
        )


def test_a_record_field_outside_its_item_is_refused() -> None:
    whole = pickle.dumps(np.zeros(2, [("a", "u1"), ("b", "u1")]), 4)
    offset = whole.rindex(b"K\x01\x86")
    with pytest.raises(DecodeError):
        restricted_loads(whole[: offset + 1] + b"\x7f" + whole[offset + 2 :])


@pytest.mark.parametrize("code", ["O,O", "(1000000000)f8", "f8, (2)f8", "T", "V99999999999"])
def test_a_dtype_code_is_not_parsed_freely(code: str) -> None:
    with pytest.raises((DecodeError, SerializerRefused)):
        restricted_loads(call("numpy", "dtype", code, False, True))


def test_an_unfinished_object_never_reaches_the_content() -> None:
    with pytest.raises(DecodeError):
        restricted_loads(call("numpy", "dtype", "f8", False, True))


def test_a_masked_array_is_refused() -> None:
    with pytest.raises(SerializerRefused):
        restricted_loads(pickle.dumps(np.ma.masked_array([1, 2], [True, False])))


def test_more_buffers_than_used_are_refused() -> None:
    with pytest.raises(DecodeError):
        restricted_loads(pickle.dumps(1), [memoryview(b"x")])


def test_only_classes_that_a_pickle_can_name_are_registered() -> None:
    class Local:
        pass

    with pytest.raises(errors.ConfigError):
        register_class(Local)


def test_every_standard_exception_is_rebuilt_from_its_name() -> None:
    names = [
        key for key, cls in vars(builtins).items() if isinstance(cls, type) and issubclass(cls, Exception)
    ]
    for key in names:
        assert restricted_loads(b"\x80\x04" + name("builtins", key) + b".") is getattr(builtins, key)


def test_no_attack_runs_a_command() -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    for function in (os.system, subprocess.call, eval):
        data = pickle.dumps(function, 4)[:-1] + inner(("true",)) + b"R."
        with pytest.raises(SerializerRefused):
            restricted_loads(data)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime == before
