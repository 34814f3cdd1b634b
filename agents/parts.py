"""Parts: an agent is made of parts, and offers their methods as its own.

::

    class Agent:
        subscribe = method("_listening", Listening.subscribe)

`Agent.subscribe` has the arguments and the docstring of `Listening.subscribe`, and may be overridden as any
other method. An agent inherits nothing of its parts, and no part knows the agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def method(part: str, function: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of a part, as one of its owner.

    Args:
        part: attribute of the owner.
        function: of the part's class.
    """
    return cast("Callable[Concatenate[Any, P], R]", _Method(part, function))


class _Method:
    def __init__(self, part: str, function: Callable[..., Any]) -> None:
        self._part = part
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, cls: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: object, cls: type) -> Callable[..., Any]:
        """The bound method of the part, without a call in between; of the class, the plain function.

        The owner keeps it, unless a subclass overrides it, so that it is looked up once.
        """
        function: Any = self._function
        if owner is None:
            return function
        bound = function.__get__(getattr(owner, self._part))
        if next(vars(each)[self._name] for each in cls.__mro__ if self._name in vars(each)) is self:
            vars(owner)[self._name] = bound
        return bound
