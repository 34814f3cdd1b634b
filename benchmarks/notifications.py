"""How fast notifications are, beside version 0.2, iceoryx2, ezmsg, eCAL, zenoh and raw pyzmq.

``python -m benchmarks.notifications`` prints one table with all processes pinned to one core and one without.
docs/notifications-performance.md says what is compared and how.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from benchmarks.children import ROOT
from benchmarks.command import Benchmark, ended
from benchmarks.idle import IDLE
from benchmarks.notification_cases import CASES, FULL, QUICK
from benchmarks.old_version import OLD, old_version_option
from benchmarks.together import MIXED, TOGETHER

NOTIFICATIONS = Benchmark(
    "notifications", "How fast notifications are, beside other libraries.",
    (*CASES, TOGETHER, *MIXED, IDLE), FULL, QUICK,
    ROOT / "docs" / "notifications-performance.md", "notifications",
    (
        "pzc", "pyzmq", "msgspec", "cryptography", "numpy",
        "iceoryx2", "ezmsg", "eclipse-ecal", "eclipse-zenoh",
    ),
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 when everything could be measured, whether or not the bars are met."""
    parser = NOTIFICATIONS.parser()
    parser.add_argument(
        "--verify",
        action="store_true",
        help="write and compare whole arrays, which takes time of everybody's",
    )
    old_version_option(parser)
    options = NOTIFICATIONS.parse(parser, arguments)
    if options.without_old:
        OLD.leave_out()
    if options.verify and options.update_docs:
        parser.error("--verify is no measurement: it does not go with --update-docs")
    if not options.verify:
        return NOTIFICATIONS.run(options)
    full, quick = (dataclasses.replace(effort, whole=True) for effort in (FULL, QUICK))
    return dataclasses.replace(NOTIFICATIONS, full=full, quick=quick).run(options)


if __name__ == "__main__":
    sys.exit(ended(main))
