from __future__ import annotations

import ast

import pytest

from pzc.agents.stub.signatures import parse_expression
from pzc.agents.stub.stub_types import Types


def _written(text: str, **names: str) -> str:
    return ast.unparse(Types(()).read(parse_expression(text), names))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("int", "int"), ("None", "None"), ("Any", "_typing.Any"), ("'int'", "int"), ("int | 'str' | None", "int | str | None"),
        ("typing.List[int]", "list[int]"), ("Optional[int]", "int | None"), ("Union[int, str]", "int | str"),
        ("list", "list[_typing.Any]"), ("tuple", "tuple[_typing.Any, ...]"), ("tuple[()]", "tuple[()]"),
        ("tuple[int, ...]", "tuple[int, ...]"), ("Literal['a', -1]", "_typing.Literal['a', -1]"),
        ("Callable[[int], str]", "_collections_abc.Callable[[int], str]"), ("ClassVar[int]", "int"),
        ("Annotated[int, run()]", "int"), ("datetime.datetime", "_datetime.datetime"), ("pathlib.Path", "_pathlib.Path"),
        ("concurrent.futures.Future[int]", "_concurrent_futures.Future[int]"), ("np.float64", "_numpy.float64"),
        ("npt.NDArray[np.int16]", "_numpy_typing.NDArray[_numpy.int16]"), ("numpy.ndarray", "_numpy_typing.NDArray[_typing.Any]"),
        ("numpy.ndarray[typing.Any, numpy.dtype[numpy.int16]]", "_numpy_typing.NDArray[_numpy.int16]"),
    ],
)  # fmt: skip
def test_a_known_type_stays(text: str, written: str) -> None:
    assert _written(text) == written


@pytest.mark.parametrize(
    "text",
    [
        "mylab.Range", "Range", "Self", "antigravity.x", "os.system", "subprocess.Popen", "exit()", "lambda: int", "3", "...",
        "x := 3", "list[int, str]", "dict[int]", "int[str]", "Literal[1.5]", "Literal[run()]", "_thread.lock", "np._core.x",
        "f'{run()}'", "", "not an annotation", "|".join(["int"] * 100), "a" + ".a" * 1500, "numpy.ndarray.__class__",
        "__loader__", "int\nimport os",
    ],
)  # fmt: skip
def test_any_other_type_becomes_any(text: str) -> None:
    assert _written(text) == "_typing.Any"


def test_only_what_is_unknown_inside_of_a_type_becomes_any() -> None:
    assert _written("dict[str, list[mylab.Range]] | None") == "dict[str, list[_typing.Any]] | None"


def test_names_mean_what_the_server_says() -> None:
    assert _written("Path", Path="pathlib.Path") == "_pathlib.Path"
    assert _written("Readings", Readings="list[float] | None") == "list[float] | None"
    assert _written("n.float64", n="numpy") == "_numpy.float64"
    assert _written("Iterator[int]", Iterator="mylab.Iterator") == "_typing.Any"
    assert _written("Json", Json="dict[str, Json]") == "dict[str, _typing.Any]"


def test_a_deep_type_ends_in_any() -> None:
    deep = "tuple[" * 100 + "int" + "]" * 100
    assert _written(deep) == "tuple[" * 9 + "_typing.Any" + "]" * 9
