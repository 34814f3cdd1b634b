"""Responsive links: whose acknowledgement a publication waits for.

::

    link        event                       next link
    unknown     begin                       trusted, waited for
    trusted     begin                       trusted, waited for
                missed                      missing
    missing     begin                       missing, not waited for
                acknowledged (anything)     trusted
    any         forget                      unknown
    unknown     missed, acknowledged        unknown

So a slow or frozen reader costs the publisher one wait, not one per message. What is `missed` for a link
that died during the wait leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class ResponsiveLinks:
    """Remembers which links missed a wait; see the table in the module's docstring."""

    def __init__(self) -> None:
        self._asked: dict[Hashable, int] = {}
        self._missing: dict[Hashable, int] = {}

    def begin(self, number: int, links: Iterable[Hashable]) -> set[Hashable]:
        """A publication begins to wait.

        Args:
            number: of the message within its topic.
            links: those that get the message.

        Returns:
            Those of them to wait for, all in one wait.
        """
        missing = self._missing
        trusted: set[Hashable] = set()
        for link in links:
            if link not in missing:
                trusted.add(link)
                self._asked[link] = number
        return trusted

    def acknowledged(self, link: Hashable) -> None:
        """The link acknowledged something: it is waited for again."""
        if self._missing:
            self._missing.pop(link, None)

    def missed(self, links: Iterable[Hashable]) -> None:
        """The wait is over, and these links have not acknowledged its message."""
        for link in links:
            if link in self._asked:
                self._missing[link] = self._asked[link]

    def missing(self) -> dict[Hashable, int]:
        """The links that are not waited for, with the number last asked of each."""
        return dict(self._missing)

    def forget(self, link: Hashable) -> None:
        """The link is gone."""
        self._asked.pop(link, None)
        self._missing.pop(link, None)
