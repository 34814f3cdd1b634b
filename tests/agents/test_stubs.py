from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pzc.agents.stub import stub_text

from tests.effort import many

HOSTILE = [
    "import os",
    "os.system('x')",
    '"""',
    "'''",
    "\\",
    "\n",
    "\r\n    ",
    "#",
    "):",
    "\u2028",
    "\ud800",
    "__",
    "[",
    "(",
]
NAMES = st.one_of(
    st.text(max_size=8), st.sampled_from(["m", "class", "_x", "ﬁ", "float", "property", "a.b", "x\n"])
)
TEXTS = st.one_of(
    st.text(max_size=20), st.lists(st.sampled_from([*HOSTILE, "a", "int", ",", " "]), max_size=8).map("".join)
)
SIGNATURES = st.one_of(
    TEXTS, TEXTS.map("({})".format), TEXTS.map("(a={}, b=1)".format), TEXTS.map("(a: {}) -> int".format),
    TEXTS.map("() -> {}".format), TEXTS.map("() -> list[{}]".format),
)  # fmt: skip
ENTRIES = st.fixed_dictionaries(
    {"kind": st.sampled_from(["method", "property", "signal", "items", "value", "remote", "?"])},
    optional={
        "signature": SIGNATURES, "type": TEXTS, "doc": TEXTS, "writable": st.booleans(),
    },
)  # fmt: skip


def _text(table: dict[str, Any], name: str = "Psu") -> str:
    return stub_text(name, {"members": table}, {})


def _class(text: str) -> ast.ClassDef:
    (found,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    return found


def _members(text: str) -> dict[str, list[ast.FunctionDef]]:
    members: dict[str, list[ast.FunctionDef]] = {}
    for node in _class(text).body:
        if isinstance(node, ast.FunctionDef):
            members.setdefault(node.name, []).append(node)
    return members


def _written(entry: dict[str, Any], name: str = "m") -> str:
    """The last definition of a member, without its decorators and body."""
    function = _members(_text({name: entry}))[name][-1]
    function.decorator_list, function.body = [], [ast.Expr(ast.Constant(...))]
    return ast.unparse(function).partition("\n")[0].removeprefix(f"def {name}").removesuffix(":")


def _method(signature: object, **about: Any) -> str:
    return _written({"kind": "method", "signature": signature, **about})


ANY_CALL = "(self, *args: _typing.Any, **kwargs: _typing.Any) -> _typing.Any"


@pytest.mark.parametrize(
    ("signature", "written"),
    [
        ("(volts: float, steps: int = 10) -> None",
         "(self, volts: _builtins.float, steps: _builtins.int=...) -> None"),
        ("(a, /, *c: Volt, d: bool = False, **e: str) -> list[int]",
         "(self, a: _typing.Any, /, *c: _typing.Any, d: _builtins.bool=..., **e: _builtins.str) -> _typing.Any"),
        ("()", "(self) -> _typing.Any"),
        ("(self, x: int)", "(_self, self: _typing.Any, x: _builtins.int) -> _typing.Any"),
    ],
)  # fmt: skip
def test_a_method_keeps_its_signature(signature: str, written: str) -> None:
    assert _method(signature) == written


def test_an_odd_signature_becomes_any_call() -> None:
    assert [_method(odd) for odd in (None, "(...)", "(__a) -> int")] == [ANY_CALL] * 3


def test_only_what_may_be_set_has_a_setter() -> None:
    table = {
        "read": {"kind": "property", "type": "int", "writable": False},
        "both": {"kind": "property", "type": "int", "writable": True},
        "value": {"kind": "value", "type": "int"},
        "changed": {"kind": "signal"},
        "points": {"kind": "items", "type": "list[int]"},
    }
    definitions = {name: len(found) for name, found in _members(_text(table)).items()}
    assert definitions.items() >= {"read": 1, "both": 2, "value": 2, "changed": 1, "points": 2}.items()


def test_documentation_is_that_of_the_member() -> None:
    doc = "First.\n\n    Indented \"\"\" and ''' and \\ here.\n"
    (getter,) = _members(_text({"m": {"kind": "property", "doc": doc}}))["m"]
    assert ast.get_docstring(getter) == inspect.cleandoc(doc)


@pytest.mark.parametrize("name", ["class", "None", "_x", "__init__", "a b", "a.b", "ﬁ", "x\n", "", "1x"])
def test_a_name_that_cannot_stand_behind_a_dot_is_left_out(name: str) -> None:
    table: dict[str, Any] = {name: {"kind": "value"}, "good": {"kind": "value"}}
    assert set(_members(_text(table))) == {"good"}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("PowerSupply", "PowerSupply"), ("class", "RemoteObject"), ("", "RemoteObject"), ("_Private", "Private"),
        ("a): import os", "a___import_os"), ("Größe", "Größe"),
    ],
)  # fmt: skip
def test_the_class_has_a_name_that_a_class_can_have(name: str, written: str) -> None:
    assert _class(_text({}, name)).name == written


def test_an_original_server_tells_names_only() -> None:
    members = _members(_text({"ramp": {"kind": "remote"}}))
    assert set(members) == {"ramp", "__getattr__", "__setattr__"}
    assert members["ramp"][0].returns is not None
    assert ast.unparse(members["ramp"][0].returns) == "_typing.Any"


@settings(max_examples=many(60), suppress_health_check=[HealthCheck.too_slow])
@given(NAMES, st.dictionaries(NAMES, ENTRIES, max_size=3), TEXTS)
def test_nothing_that_a_server_tells_becomes_code(name: str, table: dict[str, Any], doc: str) -> None:
    text = stub_text(name, {"members": table, "doc": doc}, {})
    text.encode("utf-8")
    module = ast.parse(text)
    assert all(isinstance(node, ast.Import | ast.ClassDef) for node in module.body)
    modules = {
        alias.name.partition(".")[0]
        for node in module.body
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert modules == {"builtins", "typing", "pzc"}
    documentation, *members = _class(text).body
    assert isinstance(documentation, ast.Expr)
    assert isinstance(documentation.value, ast.Constant)
    for member in members:
        if isinstance(member, ast.Expr):  # nothing but the documentation
            continue
        assert isinstance(member, ast.FunctionDef)
        (body,) = member.body
        assert isinstance(body, ast.Expr)
        assert isinstance(body.value, ast.Constant)
        assert member.name in table or member.name in ("__getattr__", "__setattr__")
    forbidden = (ast.Call, ast.Lambda, ast.NamedExpr, ast.JoinedStr, ast.Await, ast.Yield, ast.comprehension)
    assert not any(isinstance(node, forbidden) for node in ast.walk(module))


def test_what_is_in_an_object_is_a_class_too() -> None:
    members = {
        "ch1": {"kind": "reference", "type": "bench.Channel"},
        "far": {"kind": "reference", "type": "x.Y"},
    }
    types: dict[str, Any] = {
        "bench.Channel": {"members": {"voltage": {"kind": "property", "type": "float"}}},
        "other.Channel": {"items": "sequence", "signature": "(n: int) -> str", "members": {}},
    }
    text = stub_text("Supply", {"members": members}, types)
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    assert [node.name for node in classes] == ["Supply", "Channel", "Channel_"]
    found = {
        node.name: ast.unparse(node.returns)
        for cls in classes
        for node in cls.body
        if isinstance(node, ast.FunctionDef) and node.returns
    }
    assert found == {
        "ch1": "Channel", "far": "_typing.Any", "voltage": "_builtins.float", "__call__": "_builtins.str", "__getitem__": "_typing.Any",
        "__len__": "_builtins.int", "__iter__": "_typing.Iterator[_typing.Any]",
    }  # fmt: skip
