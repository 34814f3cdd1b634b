"""Which Qt there is: nothing of it is imported before it is needed."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ..protocol.errors import ConfigError, MissingRequirement

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


def application(qt: Any) -> Any:
    """The program's application object.

    Raises:
        ConfigError: when there is none yet.
    """
    found = qt.QCoreApplication.instance()
    if found is None:
        raise ConfigError("there is no QApplication yet: make it before pzc.qt is used")
    return found


def signal(qt: Any) -> Any:
    """What declares a signal without arguments in a class."""
    return getattr(qt, "Signal", None) or qt.pyqtSignal


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
