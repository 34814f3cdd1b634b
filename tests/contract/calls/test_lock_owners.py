"""How the owner of a lock is shown to others."""

from __future__ import annotations

import getpass
import os
import socket

import pytest

from pzc import LockedBy, Protocol, lock

from tests.contract.rigs.calling import KEY, TIMEOUT, Instrument, proxied, served


@pytest.mark.parametrize("key", [KEY, ""], ids=["one key for all", "no key"])
def test_the_owner_of_a_lock_is_shown_by_user_and_host(key: str) -> None:
    with served(Instrument(), key=key) as (server, one), lock(one) as held:
        assert held.owner.startswith(f"{getpass.getuser()}@{socket.gethostname()} (process {os.getpid()})")
        with proxied(server.rep_endpoint, protocol=Protocol(key), timeout=TIMEOUT) as two:
            with pytest.raises(LockedBy, match=getpass.getuser()):
                two.ramp(2)
