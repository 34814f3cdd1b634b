"""Types of remote members, for stub files: what a type checker and an editor see of a proxy's attributes.

`stubs` writes stubs that use them. When a program runs, the members are `Member` objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, MutableSequence
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

from ...delivery.policies import Policy
from ...protocol.notification import Notification
from ..interfaces import Subscription
from ..signals import Slot

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")
C = TypeVar("C", covariant=True)


class Remote:
    """Base of the classes of a stub file: what stands for them is a `pzc.Proxy`, or was reached through one.

    When a program runs there is no instance of it.
    """

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...


class RemoteFuture(Future[T]):
    """What `PendingCall` is, with the type of its result; nothing makes one when a program runs."""

    call_id: str
    """For `pzc.attach`."""


class RemoteIterator(Iterator[C], Protocol[C]):
    """Items of a remote generator."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...

    def close(self) -> None:
        """End the generator at the server."""
        ...


class RemoteMethod(Protocol[P, R]):
    """A method of a remote object, with the arguments and the result that its server tells."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the remote method and wait for its result."""
        ...

    @overload
    def future(self: RemoteMethod[P, Future[T]], *args: P.args, **kwargs: P.kwargs) -> RemoteFuture[T]: ...
    @overload
    def future(self, *args: P.args, **kwargs: P.kwargs) -> RemoteFuture[R]: ...
    def future(self, *args: P.args, **kwargs: P.kwargs) -> RemoteFuture[Any]:
        """Call the remote method without waiting; a future that the method returns is unpacked."""
        ...

    def oneway(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call the remote method and never hear of it again."""
        ...

    def options(
        self, *, timeout: float | None = None, idempotent: bool | None = None, transport: str | None = None
    ) -> Self:
        """The same method, called in another way; timeout in seconds, None leaves what it was."""
        ...


class RemoteSignal(Protocol):
    """A signal of a remote object."""

    def connect(self, slot: Slot, policy: Policy | None = None) -> None:
        """Call ``slot`` at every emission."""
        ...

    def disconnect(self, slot: Slot | None = None) -> None:
        """Stop calling ``slot``, or every slot of this proxy."""
        ...

    def subscribe(self, policy: Policy | None = None) -> Subscription:
        """Notifications from now on."""
        ...

    def __iter__(self) -> Iterator[Notification]: ...

    def emit(self, *values: Any, **named: Any) -> None:
        """Emit the signal at the server."""
        ...


class RemoteMapping(Protocol[K, V]):
    """A mapping attribute of a remote object; each operation is a call."""

    def __getitem__(self, key: K) -> V: ...
    def __setitem__(self, key: K, value: V) -> None: ...
    def __delitem__(self, key: K) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[K]: ...

    def keys(self) -> list[K]:
        """Keys, at the time of the call."""
        ...

    def values(self) -> list[V]:
        """Values, at the time of the call."""
        ...

    def items(self) -> list[tuple[K, V]]:
        """Items, at the time of the call."""
        ...

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: V | T) -> V | T: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Value of a key, or the default."""
        ...

    def copy(self) -> MutableMapping[K, V]:
        """A local copy."""
        ...

    def options(self, *, timeout: float | None = None, transport: str | None = None) -> Self:
        """The same attribute, asked in another way; timeout in seconds, None leaves what it was."""
        ...


class RemoteSequence(Protocol[T]):
    """A sequence attribute of a remote object; each operation is a call."""

    @overload
    def __getitem__(self, key: int) -> T: ...
    @overload
    def __getitem__(self, key: slice) -> MutableSequence[T]: ...
    def __getitem__(self, key: int | slice) -> Any: ...
    def __setitem__(self, key: int, value: T) -> None: ...
    def __delitem__(self, key: int | slice) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[T]: ...

    def copy(self) -> MutableSequence[T]:
        """A local copy."""
        ...

    def options(self, *, timeout: float | None = None, transport: str | None = None) -> Self:
        """The same attribute, asked in another way; timeout in seconds, None leaves what it was."""
        ...


def remote_method(function: Callable[Concatenate[Any, P], R]) -> RemoteMethod[P, R]:
    """Decorator for stub files: the function is a method of a remote object.

    Raises:
        TypeError: always when a program runs, where it would hide the method of the proxy.
    """
    name = getattr(function, "__qualname__", repr(function))
    raise TypeError(f"remote_method describes {name} in a stub file; it makes nothing when a program runs")
