"""Batch: several calls in one request, run in one turn of the server's lane."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol import limits
from ...protocol.errors import LocalProtocolError, MemberRefused, RemoteProtocolError
from ...protocol.operations import ITEM_METHODS
from ...protocol.paths import Path, text
from ...protocol.shown import shown
from .answers import BatchOutcome
from .arguments import remote_of
from .reference import RemoteReference, named
from .sent import filled, place_of
from .terms import Terms

if TYPE_CHECKING:
    from ..stubs.typing_helpers import Remote
    from .remote import RemoteObject

Record = Callable[[str, dict[str, Any]], None]


class Batch:
    """Records what is done with it instead of doing it; made by `batch`.

    ``b.x`` records reading, ``b.x = 3`` setting, ``b.f(1)`` calling, and ``b.items["k"]`` what can be
    done with a mapping or sequence. All of these give None at once; when the ``with`` block ends, one
    request runs them at the server in this order, with no other call between them.
    """

    def __init__(self, remote: RemoteObject, owner: object, terms: Terms) -> None:
        self.__dict__.update(
            _remote=remote,
            _owner=owner,
            _terms=terms,
            _calls=[],
            _results=[],
            _over=False,
        )

    @property
    def results(self) -> list[Any]:
        """After the block: what the calls gave, in order; when one raised, what those before it gave.

        None stands for setting, and for what is not sent by value. A batch that was sent one way has none.
        """
        return self._results

    def __getattr__(self, name: str) -> Any:
        return self._read((*self._remote.root, name))

    def _read(self, path: Path) -> Any:
        _check(name := path[-1])
        kind = self._remote.about(path[:-1]).members.get(name, {}).get("kind")
        if kind == "reference":
            return RecordedReference(path, self)
        if kind in ("method", "signal", "items", "remote"):
            return RecordedMember(path, self._record)
        return self._record("getattr", place_of(path))

    def __setattr__(self, name: str, value: Any) -> None:
        self._write((*self._remote.root, name), value)

    def _write(self, path: Path, value: Any) -> None:
        _check(path[-1])
        self._record("setattr", {**place_of(path), "value": value})

    def _record(self, action: str, options: dict[str, Any]) -> None:
        if self._over:
            raise LocalProtocolError("this batch is over: begin another one")
        if len(self._calls) >= limits.current.batch_calls:
            raise LocalProtocolError(
                f"a batch has at most {limits.current.batch_calls} calls; nothing was sent"
            )
        self._calls.append([action, filled(options, partial(named, self._remote.server))])

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """Run what was recorded, unless the block raised or recorded nothing.

        Raises:
            Exception: what a call raised, with a note that says which; those after it did not run.
            CallTimeout, PeerLost: as every call; all or a part of them, in order, may have run.
            SerializeError: when an argument cannot be expressed; nothing was sent.
        """
        if is_to_run(self, kind):
            self._run()

    def _run(self) -> None:
        outcome = self._remote.request("batch", {"calls": self._calls}, self._terms)
        if self._terms.oneway:
            return
        if not isinstance(outcome, BatchOutcome):
            raise RemoteProtocolError(f"{self._remote.endpoint} answered a batch with {shown(outcome, 100)}")
        self.__dict__["_results"], error, _ = outcome
        if error is not None:
            error.add_note(self._place(len(outcome.results)))
            try:
                raise error
            finally:
                del error, outcome  # its traceback holds this frame

    def _place(self, number: int) -> str:
        if number >= len(self._calls):
            return f"in a batch of {len(self._calls)} calls"
        action, options = self._calls[number]
        what = f"{action} {text([*options.get('on', ()), options['name']])}"
        return f"in call {number + 1} of {len(self._calls)} of a batch ({what}); those after it did not run"

    def __dir__(self) -> list[str]:
        return sorted({*self._remote.table, "results"})

    def __repr__(self) -> str:
        return f"<batch of {len(self._calls)} calls to {self._remote.target}>"


class RecordedMember:
    """A method, signal, mapping or sequence of which a batch records the use."""

    def __init__(self, path: Path, record: Record) -> None:
        self.__name__ = text(path)
        self._path = path
        self._record = record

    def _exec(self, method: str, *args: Any, **kwargs: Any) -> None:
        options: dict[str, Any] = {**place_of(self._path), "method": method}
        if args:
            options["args"] = args
        if kwargs:
            options["kwargs"] = kwargs
        self._record("exec", options)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Record a call."""
        self._exec("__call__", *args, **kwargs)

    def __getitem__(self, key: Any) -> None:
        self._exec("__getitem__", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._exec("__setitem__", key, value)

    def __delitem__(self, key: Any) -> None:
        self._exec("__delitem__", key)

    def __getattr__(self, name: str) -> Any:
        if name == "emit" or (name in ITEM_METHODS and not name.startswith("_")):
            return partial(self._exec, name)
        raise AttributeError(f"a batch cannot record {self.__name__}.{name}", name=name, obj=self)

    def __iter__(self) -> Any:
        raise TypeError(f"a batch cannot iterate {self.__name__}: use {self.__name__}.copy()")

    def __repr__(self) -> str:
        return f"<{self.__name__} of a batch>"


class RecordedReference:
    """Something in the served object, such as a channel, of whose members a batch records the use."""

    def __init__(self, path: Path, batch: Batch) -> None:
        vars(self).update(_path=path, _batch=batch)

    def __getattr__(self, name: str) -> Any:
        return self._batch._read((*self._path, name))

    def __setattr__(self, name: str, value: Any) -> None:
        self._batch._write((*self._path, name), value)

    def __repr__(self) -> str:
        return f"<{text(self._path)} of a batch>"


def _check(name: Any) -> None:
    if name.startswith("_"):
        raise MemberRefused(f"{name!r} is private: members that begin with '_' are never served")


def is_to_run(batch: Batch, raised: type[BaseException] | None) -> bool:
    """End a batch, whose block raised that: whether what it recorded is to run."""
    vars(batch)["_over"] = True
    return raised is None and bool(vars(batch)["_calls"])


def send_later(batch: Batch) -> Future[Any]:
    """Send a batch one way, in the order of all that its client does not wait for; done when it was sent."""
    own = vars(batch)
    remote: RemoteObject = own["_remote"]
    return remote.request_later("batch", {"calls": own["_calls"]}, own["_terms"])


def batch(proxy: RemoteReference | Remote, *, timeout: float | None = None, oneway: bool = False) -> Batch:
    """Several calls in one request, for a ``with`` block: ``b.voltage; b.ramp(1)``, then ``b.results``.

    They run in one turn of the server's lane, in order, and stop at the first that raises; its
    exception is raised at the end of the block. A block that raises by itself sends nothing.

    Args:
        proxy: of the object.
        timeout: of them all together, in seconds; default the proxy's.
        oneway: the block ends when they were sent: nobody learns what they gave, or that one raised.

    Raises:
        Refused: when an original Pizco is there.
    """
    remote = remote_of(proxy)
    remote.need("run a batch")
    return Batch(remote, proxy, Terms(timeout, oneway=oneway))
