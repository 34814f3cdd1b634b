"""Which tests stay together when they are distributed to several processes, and what becomes of one that kills its process."""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


class Scheduling(LoadGroupScheduling):
    """Those of one group, and of one file otherwise: its fixtures are made once.

    A test of which its process died has failed and is not begun again: each further process would die of it.
    """

    def _split_scope(self, nodeid: str) -> str:
        return super()._split_scope(nodeid).partition("::")[0]

    def _reschedule(self, node: WorkerController) -> None:
        """Give a process more, until it has two tests or is told that there are no more: it keeps one back till then."""
        if node not in self.registered_collections:  # it has just been started in the place of another one
            return
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """A process has ended; returns the test of which it died."""
        units = self.assigned_work[node]
        waiting = (test for unit in units.values() for test, done in unit.items() if not done)
        died_of = next(waiting, None)
        for scope, unit in list(units.items()):
            if died_of in unit:
                unit[died_of] = True
            if all(unit.values()):  # else another process would be given nothing, and be waited for
                del units[scope]
        super().remove_node(node)
        return died_of
