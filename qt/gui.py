"""What brings work from any thread to the GUI thread, one for each application object; what knows Qt."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..protocol.errors import ConfigError, MissingRequirement

_GUI_TURN = 0.01
"""Seconds for which slots keep the GUI thread of a Qt program; then the user's events have their turn."""


logger = logging.getLogger("pzc.qt")

Work = Callable[[], object]

BINDINGS = ("PySide6", "PyQt6")
"""Packages that are known, the first one first."""


def core() -> Any:
    """``QtCore`` of the binding that this program has imported, else of the first one that is installed.

    Raises:
        MissingRequirement: when there is none.
    """
    for name in (*(each for each in BINDINGS if f"{each}.QtCore" in sys.modules), *BINDINGS):
        try:
            return importlib.import_module(f"{name}.QtCore")
        except ImportError:
            continue
    raise MissingRequirement(f"pzc.qt needs {' or '.join(BINDINGS)}: pip install PySide6-Essentials")


def is_gone(thing: object) -> bool:
    """True for a wrapper whose Qt object was deleted."""
    for module, test in (("shiboken6", "isValid"), ("PyQt6.sip", "isdeleted")):
        look = getattr(sys.modules.get(module), test, None)
        try:
            if look is not None and bool(look(thing)) is (test == "isdeleted"):
                return True
        except TypeError:  # a wrapper of the other binding, or none
            continue
    return False


@lru_cache(maxsize=1)
def _bell_of(qt: Any) -> Any:
    class Bell(qt.QObject):
        """Lives in the GUI thread; `rung` may be emitted in any."""

        rung = (getattr(qt, "Signal", None) or qt.pyqtSignal)()

    return Bell


class Gui:
    """Runs work in the GUI thread, in order, until the application quits; safe from any thread.

    What waits is bounded by whoever posts: a connection posts once until that ran, a call once.

    Args:
        qt: ``QtCore``.
        application: whose thread it is.

    Attributes:
        held: connections and calls that live as long as the application, unless they end before.
    """

    def __init__(self, qt: Any, application: Any) -> None:
        self.application = application
        self.held: set[Any] = set()
        self._lock = threading.Lock()
        self._waiting: deque[Work] = deque()
        self._open, self._rung = True, False
        self._bell = _bell_of(qt)()
        self._bell.moveToThread(application.thread())
        self._bell.rung.connect(self._run, qt.Qt.ConnectionType.QueuedConnection)
        application.aboutToQuit.connect(self.close)
        atexit.register(self.close)

    def post(self, work: Work) -> None:
        """Have something run in the GUI thread; nothing after `close`."""
        with self._lock:
            if not self._open:
                return
            self._waiting.append(work)
            rings, self._rung = not self._rung, True
        if rings:
            self._ring()

    def close(self) -> None:
        """Forget what waits, and close what is held; nothing begins to run after that."""
        atexit.unregister(self.close)
        with self._lock:
            self._open = False
            self._waiting.clear()
        while self.held:
            self.held.pop().close()

    def _ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # the application is gone, and the bell with it
            self._bell.rung.emit()

    def _run(self) -> None:
        until = time.monotonic() + _GUI_TURN
        while True:
            with self._lock:
                if not self._waiting:
                    self._rung = False
                    return
                if time.monotonic() >= until:
                    break
                work = self._waiting.popleft()
            try:
                work()
            except Exception:  # PyQt6 ends the program for one that leaves a slot
                logger.exception("a slot failed")
        self._ring()


_current: Gui | None = None


def gui() -> Gui:
    """That of the program's application object; call it in the GUI thread first.

    Raises:
        ConfigError: when there is no application yet.
        MissingRequirement: without a Qt binding.
    """
    global _current
    qt = core()
    application = qt.QCoreApplication.instance()
    if application is None:
        raise ConfigError("there is no QApplication yet: make it before pzc.qt is used")
    if _current is None or _current.application is not application:
        if _current is not None:
            _current.close()
        _current = Gui(qt, application)
    return _current
