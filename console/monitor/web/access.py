"""Access: who may see the page, and who may act with it. Pure but for chance, which makes tokens.

::

    listens           token            acts
    loopback          none             nobody
    loopback          each operator's  operators, with their own keys
    anywhere else     everybody's      operators; only with TLS
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

VIEWER = "viewer"
"""Who watches without a name of their own."""

MOST_SESSIONS = 64
"""Of one user, whose oldest one ends when there are more."""

TOKEN = 16
"""Characters that a token has at least."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer."""


@dataclass(frozen=True)
class User:
    """Somebody who looks at the page.

    Attributes:
        name: as it stands in the audit log.
        operates: whether they have a key of role operator.
    """

    name: str
    operates: bool = False


class Access:
    """Tokens, and sessions that were opened with them.

    Args:
        tokens: of each user.
        open_to: who anybody is who shows no token; None lets nobody in without.
        hosts: ``host:port`` by which the page may be asked for; empty for all.
        secure: whether it is reached by TLS.
    """

    def __init__(
        self, tokens: Mapping[str, User], open_to: User | None, hosts: Iterable[str], secure: bool
    ) -> None:
        self._users = {_digest(token): user for token, user in tokens.items()}
        self._open_to = open_to
        self._hosts = frozenset(host.lower() for host in hosts)
        self.secure = secure
        self._sessions: dict[bytes, User] = {}

    def asked_rightly(self, host: str) -> bool:
        """Whether a request is meant for this page: a page of another name cannot be led here by its DNS."""
        return not self._hosts or host.lower() in self._hosts

    def is_own(self, origin: str, host: str) -> bool:
        """Whether a request comes from this very page."""
        return hmac.compare_digest(
            origin.lower().encode(), f"http{'s' * self.secure}://{host}".lower().encode()
        )

    def begin(self, token: str) -> str | None:
        """A new session for a token; None for one that nobody has."""
        given = _digest(token)
        found = [user for known, user in self._users.items() if hmac.compare_digest(known, given)]
        if not found:
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[_digest(session)] = found[0]
        theirs = [each for each, user in self._sessions.items() if user == found[0]]
        for each in theirs[:-MOST_SESSIONS]:
            del self._sessions[each]
        return session

    def user(self, session: str) -> User | None:
        """Who has a session, or anybody; None for nobody."""
        return self._sessions.get(_digest(session), self._open_to) if session else self._open_to

    def end(self, session: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(session), None)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def header(scope: Mapping[str, Any], name: str) -> str:
    """A header of a request; empty when it has none, or two."""
    found = [value for key, value in scope.get("headers", ()) if key == name.encode()]
    return found[0].decode("latin-1") if len(found) == 1 else ""
