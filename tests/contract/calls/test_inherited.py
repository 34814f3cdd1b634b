"""Processes that are killed while children that they forked live on, with copies of all that they had open."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from pzc import Agent, Protocol, Server

from tests.contract.rigs import families
from tests.contract.rigs.calling import KEY, TIMEOUT, Gate, proxied, run_in_fork
from tests.contract.rigs.endpoints import free_endpoint
from tests.contract.rigs.families import every_how, family
from tests.contract.rigs.pairs import LONG, pair, read, wait_until

patient = families.patient


@pytest.mark.slow
@every_how
def test_the_lock_of_a_killed_client_is_free_though_it_left_a_child(how: str, patient: None) -> None:
    with Server(Gate(), protocol=Protocol(KEY)) as server:
        with family("client", how, server.rep_endpoint) as client:
            client.fork()
            assert server.describe()["lock"] is not None
            client.kill()
            wait_until(lambda: server.describe()["lock"] is None)


@pytest.mark.slow
@every_how
def test_the_endpoints_of_a_killed_server_are_free_though_it_left_a_child(how: str) -> None:
    endpoints = free_endpoint(), free_endpoint()
    with family("server", how, *endpoints) as server:
        server.fork()
        with proxied(server.told, protocol=Protocol(KEY)) as proxy:
            assert proxy.count() == 1
        server.kill()
        with Agent(*endpoints, protocol=Protocol(KEY)) as again, Agent(protocol=Protocol(KEY)) as asking:
            assert asking.request(again.rep_endpoint, "echo", TIMEOUT) == "echo"


def sockets() -> Iterator[socket.socket]:
    """Those that are open in this process, each for a moment."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            found = socket.socket(fileno=int(name))
            try:
                yield found
            finally:
                found.detach()


def test_a_forked_child_has_no_connection_of_its_parent_and_the_parent_keeps_all() -> None:
    with pair() as (publisher, reader):
        ports = {int(end.rpartition(":")[2]) for end in (publisher.rep_endpoint, publisher.pub_endpoint)}
        subscription = reader.subscribe(publisher.rep_endpoint, "t", policy=LONG, transport="unix")
        assert reader.request(publisher.rep_endpoint, "echo", TIMEOUT) == "echo"

        def look() -> None:
            for found in sockets():
                if found.family == socket.AF_UNIX:
                    with contextlib.suppress(OSError):
                        assert not bytes(found.getsockname() or b"").startswith(b"\0pzc/")
                elif found.family == socket.AF_INET:
                    assert found.getsockname()[1] not in ports

        assert run_in_fork(look) == 0
        publisher.publish("t", 1)
        assert read(subscription, 1) == [1]
        assert subscription.transport == "unix"
        assert reader.request(publisher.rep_endpoint, "echo", TIMEOUT) == "echo"


def test_a_forked_child_keeps_the_sockets_that_are_no_business_of_this_package() -> None:
    with pair(), socket.create_server(("127.0.0.1", 0)) as mine, socket.socket(socket.AF_UNIX) as named:
        named.bind("\0a name of a test")
        ours, theirs = socket.socketpair()
        with ours, theirs, socket.create_connection(mine.getsockname()) as connected:

            def use() -> None:
                for each in (mine, named, connected):
                    each.getsockname()
                theirs.sendall(b"from the child")

            assert run_in_fork(use) == 0
            assert ours.recv(100) == b"from the child"


def test_a_child_that_forks_while_connections_come_and_go_has_none_of_them() -> None:
    with Server(Gate(), protocol=Protocol(KEY)) as server:
        stop, errors = threading.Event(), queue.SimpleQueue[BaseException]()

        def knock() -> None:
            while not stop.is_set():
                try:
                    with proxied(server.rep_endpoint, protocol=Protocol(KEY), transport="unix") as proxy:
                        proxy.count()
                except BaseException as exc:
                    errors.put(exc)
                    return

        def look() -> None:
            for found in sockets():
                if found.family == socket.AF_UNIX:
                    assert not bytes(found.getsockname() or b"").startswith(b"\0pzc/")

        threads = [threading.Thread(target=knock) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            assert [run_in_fork(look) for _ in range(20)] == [0] * 20
        finally:
            stop.set()
            for thread in threads:
                thread.join(TIMEOUT)
        assert errors.empty(), errors.get()
