"""Networks for the tests: hosts, segments, a NAT and disturbances, made of Linux network namespaces.

Every host is a namespace. Its interfaces lead to bridges in one more namespace, the switch of its lab. Nothing
leads to the machine's own network. All of a lab goes when it is closed; what a killed run left behind is removed
by `sweep`, at the start of the next one.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket as sockets
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.contract.rigs.ethernet import enter

PREFIX = "pzct"
COMMAND_TIMEOUT = 20.0
RELAY = Path(__file__).with_name("ethernet.py")

_numbers = itertools.count()


class NetworkFailed(RuntimeError):
    """A command of the rig failed; the message has what it said."""


def run(*command: str, feed: str = "", timeout: float = COMMAND_TIMEOUT) -> str:
    """What a command prints.

    Raises:
        NetworkFailed: with its complaint.
    """
    try:
        done = subprocess.run(
            command, input=feed, capture_output=True, text=True, timeout=timeout, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise NetworkFailed(f"{' '.join(command)}: {exc}") from exc
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).replace("\n", " | ")
        raise NetworkFailed(f"{' '.join(command)}: {said or f'exit code {done.returncode}'}")
    return done.stdout


def ip(*lines: str, namespace: str = "") -> None:
    """Run lines of ``ip``, in a namespace."""
    where = ("-n", namespace) if namespace else ()
    run("ip", *where, "-batch", "-", feed="\n".join(lines) + "\n")


def owner() -> str:
    """This process, so that no other that ever has its number is taken for it."""
    return f"{PREFIX}-{os.getpid()}-{int(psutil.Process().create_time() * 100)}"


def namespaces() -> list[str]:
    """All that any run has made and nobody has removed."""
    found = json.loads(run("ip", "-json", "netns", "list") or "[]")
    return [each["name"] for each in found if each["name"].startswith(f"{PREFIX}-")]


def remove(names: Sequence[str]) -> None:
    """Remove namespaces, and kill what still runs in them."""
    for name in names:
        with contextlib.suppress(NetworkFailed, psutil.NoSuchProcess):
            for pid in run("ip", "netns", "pids", name).split():
                psutil.Process(int(pid)).kill()
        with contextlib.suppress(NetworkFailed):  # another run may be sweeping, too
            run("ip", "netns", "del", name)


def sweep() -> list[str]:
    """Remove what runs that are over have left; returns its names."""
    left = [name for name in namespaces() if not _lives(name)]
    remove(left)
    return left


def _lives(name: str) -> bool:
    _, pid, started, *_ = name.split("-")
    try:
        return int(psutil.Process(int(pid)).create_time() * 100) == int(started)
    except psutil.NoSuchProcess:
        return False


def obstacle() -> str:
    """Why no networks can be made here; empty when they can."""
    try:
        sweep()
        with Lab() as lab:
            one = lab.host("one", lab.segment())
            with one.loss(5):
                run("ip", "netns", "exec", one.namespace, sys.executable, "-c", "")
            one.translate("eth0")
            lab.host("two", lab.segment(), delay=0.001)
    except (NetworkFailed, OSError) as exc:
        return f"{exc} (needed: root, iproute2, nftables, /dev/net/tun)"
    return ""


class Segment:
    """An Ethernet to which hosts are connected: a bridge.

    Attributes:
        bridge: its name.
        number: in its lab; part of all its addresses.
    """

    def __init__(self, switch: str, number: int) -> None:
        self.bridge, self.number = f"br{number}", number
        self._last = 0
        # Without a querier, snooping would keep multicast from those who joined.
        ip(
            f"link add {self.bridge} type bridge mcast_snooping 0 stp_state 0 forward_delay 0",
            f"link set {self.bridge} up",
            namespace=switch,
        )

    def new_address(self) -> int:
        """Last part of the next host's address."""
        self._last += 1
        return self._last


class Host:
    """A namespace with interfaces ``eth0``, ``eth1``, and so on.

    Attributes:
        namespace: its name.
        addresses: IPv4, of each interface.
        addresses6: IPv6, of each interface.
    """

    def __init__(self, lab: Lab, name: str) -> None:
        self._lab = lab
        self.namespace = lab.new_namespace(name)
        self.name = name
        self.addresses: list[str] = []
        self.addresses6: list[str] = []
        self._ports: list[str] = []
        self._rules = itertools.count()

    def __repr__(self) -> str:
        return f"<Host {self.name} {' '.join(self.addresses)}>"

    @property
    def address(self) -> str:
        """IPv4 of the first interface."""
        return self.addresses[0]

    @property
    def address6(self) -> str:
        """IPv6 of the first interface."""
        return self.addresses6[0]

    def connect(self, segment: Segment, delay: float = 0.0) -> None:
        """One interface more; with a delay in seconds, each way."""
        switch, device = self._lab.switch, f"eth{len(self.addresses)}"
        port = f"p{next(self._lab.ports)}"
        if delay:
            self._lab.relay(self.namespace, device, port, delay)
        else:
            ip(f"link add {device} netns {self.namespace} type veth peer name {port} netns {switch}")
        ip(f"link set {port} master {segment.bridge} up", namespace=switch)
        number = segment.new_address()
        address, address6 = f"10.77.{segment.number}.{number}", f"fd77:{segment.number}::{number}"
        ip(
            f"link set {device} up",
            f"addr add {address}/24 broadcast + dev {device}",
            f"addr add {address6}/64 dev {device} nodad",
            f"route add 224.0.0.0/4 dev {device} metric {100 + len(self.addresses)}",
            namespace=self.namespace,
        )
        self.addresses.append(address)
        self.addresses6.append(address6)
        self._ports.append(port)

    def inside(self, *command: str, feed: str = "", timeout: float = COMMAND_TIMEOUT) -> str:
        """What a command prints that runs on this host."""
        return run("ip", "netns", "exec", self.namespace, *command, feed=feed, timeout=timeout)

    def python(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """A Python process on this host; whoever starts it ends it."""
        command = ["ip", "netns", "exec", self.namespace, sys.executable, *arguments]
        return subprocess.Popen(command, text=True, **options)

    def socket(self, kind: sockets.SocketKind) -> sockets.socket:
        """An IPv4 socket of this host, in the hands of this process."""
        made: list[sockets.socket] = []

        def make() -> None:
            enter(self.namespace)
            made.append(sockets.socket(sockets.AF_INET, kind))

        thread = threading.Thread(target=make)  # whose namespace it is, and nobody else's
        thread.start()
        thread.join()
        made[0].settimeout(COMMAND_TIMEOUT)
        return made[0]

    def route_through(self, router: Host, interface: int = 0) -> None:
        """Send to a router what is for no neighbour."""
        ip(f"route replace default via {router.addresses[interface]}", namespace=self.namespace)

    def translate(self, outside: str) -> None:
        """Become a router that hides everybody behind its address at an interface."""
        self.inside("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        self._nft(
            "table ip nat {\n"
            " chain pre { type nat hook prerouting priority -100; }\n"
            f" chain post {{ type nat hook postrouting priority 100; oifname {outside} masquerade; }}\n"
            "}"
        )

    def forward(self, port: int, to: str, to_port: int) -> None:
        """Pass on what comes to a port of this router."""
        self._nft(f"add rule ip nat pre tcp dport {port} dnat to {to}:{to_port}")

    def _nft(self, rules: str) -> None:
        self.inside("nft", "-f", "-", feed=rules + "\n")

    @contextmanager
    def dropping(self, *matches: str) -> Iterator[None]:
        """Drop, on its way in or out, what matches one of the expressions of nft."""
        table = f"rules{next(self._rules)}"
        rules = "".join(f"  {match} drop\n" for match in matches)
        chains = (
            f" chain {hook} {{\n  type filter hook {hook} priority 0\n{rules} }}\n"
            for hook in ("input", "output")
        )
        self._nft(f"table inet {table} {{\n{''.join(chains)}}}")
        try:
            yield
        finally:
            self._nft(f"delete table inet {table}")

    def loss(self, percent: int) -> contextlib.AbstractContextManager[None]:
        """Lose some of what comes in and goes out, at random."""
        chance = f"numgen random mod 100 < {percent}"
        return self.dropping(f'iifname "eth*" {chance}', f'oifname "eth*" {chance}')

    def without_multicast(self) -> contextlib.AbstractContextManager[None]:
        """Neither send nor hear multicast of IPv4."""
        return self.dropping("ip daddr 224.0.0.0/4")

    def cut_off(self) -> contextlib.AbstractContextManager[None]:
        """Lose everything; no interface tells of it."""
        return self.dropping('iifname "eth*"', 'oifname "eth*"')

    @contextmanager
    def unplugged(self, interface: int = 0) -> Iterator[None]:
        """Without carrier at an interface."""
        port = self._ports[interface]
        ip(f"link set {port} down", namespace=self._lab.switch)
        try:
            yield
        finally:
            ip(f"link set {port} up", namespace=self._lab.switch)


class Lab(ExitStack):
    """Hosts and segments, until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._name = f"{owner()}-{next(_numbers)}"
        self._segments = itertools.count(1)
        self.ports = itertools.count()
        try:
            self.switch = self.new_namespace("switch")
        except BaseException:
            self.close()
            raise

    def new_namespace(self, name: str) -> str:
        """A namespace with its loopback interface up."""
        full = f"{self._name}-{name}"
        run("ip", "netns", "add", full)
        self.callback(remove, [full])
        ip("link set lo up", namespace=full)
        return full

    def segment(self) -> Segment:
        """An Ethernet without hosts."""
        return Segment(self.switch, next(self._segments))

    def host(self, name: str, *segments: Segment, delay: float = 0.0) -> Host:
        """A host with one interface at each segment; with a delay in seconds, each way."""
        host = Host(self, name)
        for segment in segments:
            host.connect(segment, delay)
        return host

    def relay(self, namespace: str, device: str, port: str, delay: float) -> None:
        """Join a device of a host and a port of the switch by a process that passes frames on, later."""
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(RELAY), namespace, device, self.switch, port, str(delay)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.callback(_end, process)
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != b"ready\n":
            raise NetworkFailed(f"the relay did not start: {process.stderr.read().decode()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    with process:
        process.kill()
