"""Families: where does the host name in an endpoint lead to, by IPv4 or by IPv6?

libzmq is given addresses. It would look a name up, again for each connection, in the one thread that has all
connections of the process, and all would wait for a name server that does not answer. What is known is
found out by `dialling.settle`; safe from any thread.
"""

from __future__ import annotations

from ..protocol.memo import Memo

_MOST = 10_000

_places: Memo[str, str] = Memo()
_settled: Memo[str, bool] = Memo()


def place(endpoint: str) -> str:
    """The endpoint with the address that its host name led to last; itself where that is not known."""
    return _places.get(endpoint, endpoint)


def is_settled(endpoint: str) -> bool:
    """True when it was found out, and need not be anew."""
    return endpoint in _settled


def learn(endpoint: str, place: str) -> None:
    """It was found out."""
    _places.keep(endpoint, place, _MOST)
    _settled.keep(endpoint, True, _MOST)


def forget(endpoint: str) -> None:
    """It is to be found out anew: somebody else may be there."""
    _settled.pop(endpoint, None)
