"""Batch: several calls in one request, run in one turn of the server's lane."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

from ...protocol.errors import LocalProtocolError, MemberRefused, RemoteProtocolError
from ...protocol.paths import Path, from_wire, text
from ...protocol.shown import hint, shown
from ...transport.inherited import Stays
from ..operations import BATCH_CALLS
from .answers import BatchOutcome
from .described import Entry
from .member import refer
from .reference import HELD, RemoteReference
from .sent import keeps_of, told_of
from .terms import USUAL, Terms, checked_timeout, remote_of

if TYPE_CHECKING:
    from ..stub import Remote
    from .remote import RemoteObject

_AT_ONCE = frozenset({"__iter__", "__len__", "__contains__", "__enter__", "__exit__"})
"""Methods whose result Python itself needs now."""

_OTHERWISE = frozenset({"request_later", "connect", "disconnect", "subscribe"})


class Recorder:
    """Stands for the remote object in the references of a batch: requests are noted instead of being made.

    Args:
        remote: has all else.
        leases: what keeps there what the batch is of.

    Attributes:
        calls: action and options of each.
        keeps: what may not be let go before the batch has run.
        over: nothing more is noted.
    """

    def __init__(self, remote: RemoteObject, leases: object) -> None:
        self._remote = remote
        self.keeps = [leases]
        self.calls: list[list[Any]] = []
        self.over = False

    def __getattr__(self, name: str) -> Any:
        if name in _OTHERWISE:
            raise AttributeError("a batch cannot record that: it records reading, setting and calling alone")
        return getattr(self._remote, name)

    def refer(self, path: Path, about: Entry, leases: object) -> Any:
        """As `RemoteObject.refer`."""
        if len(path) > 1 and self._remote.kind(path[:-1]) in HELD:
            raise AttributeError(f"a batch cannot record {text(path)}")
        of: Any = self
        return refer(of, path, about, leases)

    def request(self, action: str, options: dict[str, Any], terms: Terms = USUAL) -> Untold | None:
        """Note a request."""
        if (method := options.get("method")) in _AT_ONCE:
            what = told_of(options)
            raise TypeError(f"a batch cannot record {method} of {what}: use {what}.copy()")
        if action == "get" and "on" in options and self._remote.kind(from_wire(options["on"])) in HELD:
            raise AttributeError(f"a batch cannot record {told_of(options)}")
        if terms.oneway:
            raise AttributeError("a batch cannot record that: use batch(proxy, oneway=True), all of it")
        if self.over:
            raise LocalProtocolError("this batch is over: begin another one")
        if len(self.calls) >= BATCH_CALLS:
            raise LocalProtocolError(f"a batch has at most {BATCH_CALLS} calls; nothing was sent")
        self.keeps += keeps_of(options)
        self.calls.append(["getattr" if action == "get" else action, options])
        if action != "get" or "name" not in options:
            return None
        path = (*from_wire(options.get("on", ())), options["name"])
        return None if self._remote.kind(path) else Untold(self._remote, path)


class Untold:
    """What a batch gives for a member that no table tells of: it was recorded as read, and is no method."""

    def __init__(self, remote: RemoteObject, path: Path) -> None:
        self._remote = remote
        self._path = path

    def __call__(self, *args: object, **kwargs: object) -> None:
        """Refuse it, naming the nearest."""
        about = self._remote.about(self._path[:-1])
        near = hint(str(self._path[-1]), about.members, otherwise="it has")
        kind = about.type.rpartition(".")[2] or "its server"
        raise MemberRefused(f"{text(self._path)!r} cannot be called: {kind} has no such method; {near}")


class Batch(Stays):
    """Records what is done with it instead of doing it; made by `batch`.

    ``b.x`` records reading, ``b.x = 3`` setting, ``b.f(1)`` calling, and ``b.items["k"]`` what can be
    done with a mapping or sequence. All of these give None at once; when the ``with`` block ends, one
    request runs them at the server in this order, with no other call between them.
    """

    def __init__(self, remote: RemoteObject, owner: RemoteReference, terms: Terms) -> None:
        what: Any = owner
        path, told, leases = what._proxy_path, what._proxy_told, what._proxy_leases
        recorder = Recorder(remote, leases)
        of: Any = recorder
        self.__dict__.update(
            _remote=remote,
            _owner=owner,
            _terms=terms._replace(keeps=recorder.keeps),
            _recorder=recorder,
            _calls=recorder.calls,
            _root=refer(of, path, told, leases),
            _results=[],
        )

    @property
    def results(self) -> list[Any]:
        """After the block: what the calls gave, in order; when one raised, what those before it gave.

        None stands for setting, and for what is not sent by value. A batch that was sent one way has none.
        """
        return self._results

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise MemberRefused(f"{name!r} is private: members that begin with '_' are never served")
        return getattr(self._root, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._root, name, value)

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
            take(self, self._remote.request("batch", {"calls": self._calls}, self._terms))

    def _place(self, number: int) -> str:
        if number >= len(self._calls):
            return f"in a batch of {len(self._calls)} calls"
        action, options = self._calls[number]
        what = f"{action} {told_of(options)}"
        return f"in call {number + 1} of {len(self._calls)} of a batch ({what}); those after it did not run"

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._root), "results"})

    def __repr__(self) -> str:
        return f"<batch of {len(self._calls)} calls to {self._owner!r}>"


def is_to_run(batch: Batch, raised: type[BaseException] | None) -> bool:
    """End a batch, whose block raised that: whether what it recorded is to run."""
    vars(batch)["_recorder"].over = True
    return raised is None and bool(vars(batch)["_calls"])


def take(batch: Batch, outcome: object) -> None:
    """What a batch gave; nothing of one that was sent one way. Raises what one of its calls raised."""
    own = vars(batch)
    if own["_terms"].oneway:
        return
    if not isinstance(outcome, BatchOutcome):
        raise RemoteProtocolError(f"{own['_remote'].endpoint} answered a batch with {shown(outcome, 100)}")
    own["_results"], error, _ = outcome
    if error is not None:
        error.add_note(batch._place(len(outcome.results)))  # pyright: ignore[reportPrivateUsage]
        try:
            raise error
        finally:
            del error, outcome  # its traceback holds this frame


def send_later(batch: Batch) -> Future[Any]:
    """Send a batch, in the order of all that its client does not wait for; done when it was sent one way."""
    own = vars(batch)
    remote: RemoteObject = own["_remote"]
    return remote.request_later("batch", {"calls": own["_calls"]}, own["_terms"])


def batch(proxy: RemoteReference | Remote, *, timeout: float | None = None, oneway: bool = False) -> Batch:
    """Several calls in one request, for a ``with`` block: ``b.voltage; b.ramp(1)``, then ``b.results``.

    They run in one turn of the server's lane, in order, and stop at the first that raises; its
    exception is raised at the end of the block. A block that raises by itself sends nothing.

    Args:
        proxy: of the object, or what was reached through one, such as ``dac.ch1``.
        timeout: of them all together, in seconds; default the proxy's.
        oneway: the block ends when they were sent: nobody learns what they gave, or that one raised.

    Raises:
        Refused: when an original Pizco is there.
    """
    remote = remote_of(proxy)
    remote.need("run a batch")
    return Batch(remote, cast("RemoteReference", proxy), Terms(checked_timeout(timeout), oneway=oneway))
