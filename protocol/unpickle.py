"""Unpickler for content that nobody signed: a small machine of its own, not ``pickle.Unpickler``.

It knows the opcodes of protocols 0 to 5, imports nothing, calls only what ``unpickle_rules`` allows, and
spends at most a budget in proportion to the size of the input, so that a short pickle can neither fill the
memory (memo indices, length claims, copies of copies) nor hang in hashes of nested shared tuples.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .errors import DecodeError, SerializerRefused
from .unpickle_machine import Machine
from .unpickle_opcodes import OPCODES
from .unpickle_rules import register_class
from .weighing import unlink

__all__ = ["register_class", "restricted_loads"]


def restricted_loads(
    data: bytes | bytearray | memoryview, buffers: Iterable[memoryview] | None = None
) -> Any:
    """Return the object in an unsigned pickle, of any protocol.

    Allowed: plain data, ``collections``, ``datetime``, ``decimal``, ``fractions``, ``uuid``, pure paths,
    numpy arrays, scalars and dtypes, standard exceptions and this package's, and what
    :func:`register_class` added.

    Args:
        data: exactly one pickle.
        buffers: out-of-band buffers, each of which the pickle must use.

    Raises:
        SerializerRefused: a class or function that is not allowed.
        DecodeError: the pickle is malformed, truncated, followed by bytes, or asks for more than its size
            justifies.
    """
    machine = Machine(bytes(data), list(buffers or ()))
    try:
        return machine.run(OPCODES)
    except (DecodeError, SerializerRefused):
        unlink(machine.made)
        raise
    except Exception as error:
        unlink(machine.made)
        raise DecodeError(f"malformed pickle near byte {machine.pos}: {type(error).__name__}") from error
