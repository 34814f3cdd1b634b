"""A type checker's view of a served instrument, and what the proxy itself tells."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from pzc import Signal, stubs

from tests.contract.rigs.calling import served


class Scope:
    """What the stub of the last tests is written of."""

    settings: dict[str, float]

    def __init__(self) -> None:
        self.settings = {"slew": 0.5}
        self.label = "bench"
        self.triggered = Signal()

    @property
    def level(self) -> float:
        """Trigger level in volts."""
        return 0.0

    @level.setter
    def level(self, value: float) -> None: ...

    @property
    def serial(self) -> str:
        return "4711"

    def trace(self, count: int, /, start: int = 0, *, average: bool = False) -> npt.NDArray[np.float64]:
        """The last samples."""
        return np.zeros(count)

    def frames(self, count: int = 3) -> Iterator[int]:
        yield from range(count)


def test_the_stub_has_the_name_and_the_members_of_what_is_served() -> None:
    with served(Scope()) as (server, proxy):
        (found,) = [node for node in ast.parse(stubs(proxy)).body if isinstance(node, ast.ClassDef)]
        assert (found.name, ast.get_docstring(found)) == (
            "Scope",
            f"Scope as {server.rep_endpoint} serves it.",
        )


def test_a_remote_method_has_the_signature_of_the_real_one() -> None:
    with served(Scope()) as (_, proxy):
        assert str(inspect.signature(proxy.trace)) == (
            "(count: int, /, start: int = 0, *, average: bool = False) -> npt.NDArray[np.float64]"
        )
