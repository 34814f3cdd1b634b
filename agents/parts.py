"""Parts: an agent is made of parts, and offers their methods as its own.

::

    class Agent:
        subscribe = method("_listening", Listening.subscribe)

`Agent.subscribe` has the arguments and the docstring of `Listening.subscribe`, and may be overridden as any
other method. An agent inherits nothing of its parts, and no part knows the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")


class method(Generic[P, R]):  # noqa: N801  (read as a decorator is)
    """A method of a part, as one of its owner.

    Args:
        part: attribute of the owner.
        function: of the part's class.
    """

    def __init__(self, part: str, function: Callable[Concatenate[Any, P], R]) -> None:
        self._part = part
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, owner: None, cls: type) -> Callable[Concatenate[Any, P], R]: ...

    @overload
    def __get__(self, owner: object, cls: type) -> Callable[P, R]: ...

    def __get__(self, owner: object, cls: type) -> Callable[..., R]:
        """The bound method of the part; of the class, the plain function."""
        function: Any = self._function
        return function if owner is None else function.__get__(getattr(owner, self._part))
