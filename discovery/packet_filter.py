"""Sieve: a filter in the kernel that lets a UDP socket have some datagrams and not others.

It looks at one byte of the datagram, in the classic form that Linux attaches to a socket::

    0  A = length, the UDP header of 8 bytes included
    1  if A > 8 + offset: 2, else 4
    2  A = byte at 8 + offset
    3  if A = value: ``found``, else ``other``
    4  other
    5  found

Where that does not exist, `attach` says so.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from dataclasses import dataclass

_SO_ATTACH_FILTER = 26
_UDP_HEADER = 8
_LENGTH, _BYTE, _GREATER, _EQUAL, _RETURN = 0x80, 0x30, 0x25, 0x15, 0x06
_ALL, _NOTHING = 0xFFFF, 0
_instruction = struct.Struct("=HBBI").pack


@dataclass(frozen=True, slots=True)
class Mark:
    """By what datagrams are told apart.

    Attributes:
        offset: of the byte in the datagram.
        value: that the byte has in those that are marked.
    """

    offset: int
    value: int


def attach(to: socket.socket, mark: Mark, *, marked: bool) -> bool:
    """Let a socket have only the marked datagrams, or only the others; False where that cannot be done."""
    if sys.platform != "linux":
        return False
    found, other = (_ALL, _NOTHING) if marked else (_NOTHING, _ALL)
    program = b"".join((
        _instruction(_LENGTH, 0, 0, 0),
        _instruction(_GREATER, 0, 2, _UDP_HEADER + mark.offset),
        _instruction(_BYTE, 0, 0, _UDP_HEADER + mark.offset),
        _instruction(_EQUAL, 1, 0, mark.value),
        _instruction(_RETURN, 0, 0, other),
        _instruction(_RETURN, 0, 0, found),
    ))  # fmt: skip
    kept = ctypes.create_string_buffer(program)  # the kernel copies it
    try:
        to.setsockopt(
            socket.SOL_SOCKET,
            _SO_ATTACH_FILTER,
            struct.pack("@HP", len(program) // 8, ctypes.addressof(kept)),
        )
    except OSError:
        return False
    return True
