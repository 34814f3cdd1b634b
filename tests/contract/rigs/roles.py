"""A server that keys of every role may call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pzc import Key, Keyring, Protocol, Role, Server

from tests.contract.rigs.calling import Instrument


def key_of(role: Role) -> Key:
    return Key(f"secret of the {role.name}", role.name.lower(), role)


KEYS = [key_of(role) for role in Role]
SERVER = Key("secret of the server", "server", Role.ADMIN)
"""What the server signs with, and nobody asks with."""


def protocol_of(role: Role) -> Protocol:
    return Protocol(keyring=Keyring(KEYS, key_of(role)))


@pytest.fixture
def guarded() -> Iterator[Server]:
    with Server(Instrument(), protocol=Protocol(keyring=Keyring([*KEYS, SERVER], SERVER))) as server:
        yield server
