"""A server's own key is held by whoever verifies what it says, and lets nobody ask."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pzc import (
    Agent,
    Key,
    Keyring,
    Policy,
    PolicyRefused,
    Protocol,
    Proxy,
    Role,
    RoleRefused,
    Server,
    block,
    lock,
    mailbox,
)

from tests.contract.rigs.supply import KEY, TIMEOUT, Supply

SERVER = Key("the key of the server itself", "server", Role.ADMIN)
RACK = Key("the key that servers ask with", "rack", Role.OPERATOR)
WALL = Key("the key of a screen on the wall", "wall", Role.OBSERVER)
ALICE = Key("the key of a person, alice", "alice", Role.ADMIN)
TRANSPORTS = pytest.mark.parametrize("transport", ["tcp", "unix"])


@pytest.fixture
def endpoint() -> Iterator[str]:
    with Server(Supply(), protocol=Protocol(keyring=Keyring([SERVER, ALICE, RACK, WALL], SERVER))) as server:
        yield server.rep_endpoint


ASKING = """
import sys
from pzc import Key, Keyring, Protocol, Proxy, RoleRefused
target, secret, action, transport = sys.argv[1:]
ring = Keyring([Key(secret, "somebody")])
try:
    with Proxy(target, protocol=Protocol(keyring=ring), transport=transport) as psu:
        print({"read": lambda: psu.voltage, "call": psu.note, "stop": psu._proxy_stop_server}[action]())
except RoleRefused as error:
    print("refused", error)
"""


def asked(target: str, key: Key, action: str, transport: str) -> str:
    """What another process is told."""
    program = [sys.executable, "-P", "-c", ASKING, target, key.secret.decode(), action, transport]
    return subprocess.run(program, capture_output=True, text=True, timeout=60, check=True).stdout


@TRANSPORTS
@pytest.mark.parametrize("action", ["read", "call", "stop"])
def test_another_process_asks_nothing_with_the_own_key_of_a_server(
    endpoint: str, action: str, transport: str
) -> None:
    told = asked(endpoint, SERVER, action, transport)
    assert told.startswith("refused key server is this agent's own"), told


@TRANSPORTS
def test_another_process_asks_with_a_key_of_its_own(endpoint: str, transport: str) -> None:
    assert asked(endpoint, ALICE, "call", transport) == "1\n"


def test_the_only_key_of_a_server_lets_its_holders_ask() -> None:
    with Server(Supply(), protocol=Protocol(KEY)) as server:
        assert asked(server.rep_endpoint, Key(KEY), "call", "tcp") == "1\n"


def test_where_the_connection_does_not_prove_it_an_agent_of_the_same_process_is_refused(
    endpoint: str,
) -> None:
    ring = Keyring([SERVER, ALICE], SERVER)
    with pytest.raises(RoleRefused, match="own"):
        Proxy(endpoint, protocol=Protocol(keyring=ring), transport="tcp", timeout=TIMEOUT)


@pytest.mark.needs("unix")
def test_a_server_asks_within_its_own_process(endpoint: str) -> None:
    ring = Keyring([SERVER, ALICE], SERVER)
    with Proxy(endpoint, protocol=Protocol(keyring=ring)) as psu, lock(psu):
        assert psu.note() == 1


FILE = """
active = "server"
call = "rack"
[keys.server]
secret = "the key of the server itself"
role = "admin"
[keys.rack]
secret = "the key that servers ask with"
"""


@TRANSPORTS
def test_servers_that_share_a_file_ask_each_other_with_the_key_for_that(
    tmp_path: Path, transport: str
) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(FILE, encoding="utf-8")
    path.chmod(0o600)
    ring = Keyring.load(path)
    with Server(Supply(), protocol=Protocol(keyring=ring)) as server:
        target = server.rep_endpoint
        with Proxy(target, protocol=Protocol(keyring=ring), transport=transport, timeout=TIMEOUT) as psu:
            assert psu.note() == 1
            assert psu.note.future().result(TIMEOUT) == 2
            with pytest.raises(RoleRefused, match="rack is operator"):
                psu._proxy_stop_server()


def test_the_own_key_still_lets_subscribe(endpoint: str) -> None:
    both = Protocol(keyring=Keyring([SERVER, ALICE], SERVER))
    with Agent(protocol=both) as publisher, Agent(protocol=both) as reader:
        with reader.subscribe(publisher.rep_endpoint, "level") as levels:
            publisher.publish("level", 3)
            assert levels.recv(TIMEOUT).content == 3


CODE = """
import sys
from pathlib import Path
from pzc import Agent, Key, Keyring, Protocol, PzcError
class Code:
    def __reduce__(self):
        return Path.touch, (Path(sys.argv[3]),)
with Agent(protocol=Protocol(keyring=Keyring([Key(sys.argv[2])]))) as agent:
    try:
        agent.request(sys.argv[1], ("PSMessage", "exec", {"name": "back", "args": (Code(),)}), timeout=10)
    except PzcError as error:
        print(type(error).__name__)
"""


def test_a_pickle_signed_with_the_own_key_runs_no_code(endpoint: str, tmp_path: Path) -> None:
    program = [sys.executable, "-P", "-c", CODE, endpoint, SERVER.secret.decode(), str(tmp_path / "ran")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "SerializerRefused\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("policy", [mailbox(when_full="block"), block()], ids=["mailbox", "block"])
@pytest.mark.parametrize(
    ("key", "transport"), [(SERVER, "tcp"), (WALL, "tcp"), (WALL, "unix")], ids=["own", "observer", "unix"]
)
def test_no_key_below_an_operator_lets_a_server_wait_for_its_reader(
    endpoint: str, transport: str, key: Key, policy: Policy
) -> None:
    with Agent(protocol=Protocol(keyring=Keyring([SERVER, key], key)), discovery=False) as reader:
        with pytest.raises(PolicyRefused, match="takes the role operator; ask for latest, drop") as told:
            reader.subscribe(endpoint, "t", policy=policy, transport=transport)
        assert 'which the publisher\'s own is not: call = "NAME" in a keyring' in str(told.value)
        reader.subscribe(endpoint, "t", policy=mailbox(), transport=transport)


@TRANSPORTS
def test_an_operator_may_let_a_server_wait(endpoint: str, transport: str) -> None:
    with Agent(protocol=Protocol(keyring=Keyring([SERVER, RACK], RACK)), discovery=False) as reader:
        assert reader.subscribe(endpoint, "t", policy=block(), transport=transport).policy.name == "block"
