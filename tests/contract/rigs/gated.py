"""An agent whose answer waits for the test, and its places."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from pzc import (
    Agent,
)

from tests.contract.rigs.calling import TIMEOUT


class Gated(Agent):
    """Answers ``'slow'`` when the test lets it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.answered: list[Any] = []
        super().__init__(*args, **kwargs)

    def on_request(self, sender: str, topic: str, content: Any, msgid: str) -> Any:
        if content == "slow":
            self.entered.set()
            assert self.opened.wait(TIMEOUT)
        self.answered.append(content)
        return content


def places(tmp_path: Path) -> dict[str, tuple[str, str]]:
    return {
        "tcp": ("tcp://127.0.0.1:0", "tcp://127.0.0.1:0"),
        "ipc": (f"ipc://{tmp_path}/rep", f"ipc://{tmp_path}/pub"),
        "inproc": ("inproc://rep", "inproc://pub"),
    }
