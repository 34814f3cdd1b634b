"""Families: does the host name in an endpoint lead to its agent by IPv4 or by IPv6?

libzmq looks a name up again for each connection, but in one family only: the one that is known here, else
IPv4. What is known is found out by `dialling.settle`; safe from any thread.
"""

from __future__ import annotations

from ..protocol.memo import Memo

_MOST = 10_000

_ipv6: Memo[str, bool] = Memo()


def is_ipv6(endpoint: str) -> bool:
    """True for an endpoint with an IPv6 address, or with a name that leads there by IPv6."""
    return endpoint.startswith("tcp://[") or _ipv6.get(endpoint, False)


def is_known(endpoint: str) -> bool:
    """True when it was found out."""
    return endpoint in _ipv6


def learn(endpoint: str, ipv6: bool) -> None:
    """It was found out."""
    _ipv6.keep(endpoint, ipv6, _MOST)


def forget(endpoint: str) -> None:
    """It is to be found out anew: somebody else may be there."""
    _ipv6.pop(endpoint, None)
