"""Which tests stay together when they are distributed to several processes."""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling


class Scheduling(LoadGroupScheduling):
    """Those of one group, and of one file otherwise: its fixtures are made once."""

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid).partition("::")[0]
