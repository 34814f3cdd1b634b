"""A process that cannot start some of its threads."""

from __future__ import annotations

import threading


class Scarcity(list[str]):
    """Names of the threads that cannot be started; ``refused`` once one of them was not."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = threading.Event()
