"""What values, references and errors of a call are to do, and do not do yet."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from pzc import Protocol, Proxy, Server, aio, idempotent

from tests.contract.rigs.calling import KEY, TIMEOUT
from tests.contract.rigs.supply import Tripped


class Session:
    def __init__(self) -> None:
        self.seen: BaseException | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.seen = error


class Laser:
    def connect(self, port: str) -> str:
        return f"connected {port}"

    def disconnect(self) -> None: ...

    def emit(self, power: float) -> float:
        return power


class Temperature:
    def __float__(self) -> float:
        return 4.2

    def __bool__(self) -> bool:
        return False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array([4.2], dtype)

    def __add__(self, other: float) -> float:
        return 4.2 + other


class Widened:
    """Keeps what is set for another name, as dynamic properties do."""

    def __setattr__(self, name: str, value: object) -> None:
        vars(self)[f"_{name}"] = value

    def limits(self) -> object:
        return self._limits  # pyright: ignore[reportAttributeAccessIssue]


class Meter:
    class Mode(enum.Enum):
        DC = "dc"
        AC = "ac"

    def __init__(self) -> None:
        self.mode = Meter.Mode.AC
        self.track = [1.0, 2.0]
        self.session, self.laser, self.temperature = Session(), Laser(), Temperature()

    def scan(self, on_point: Any) -> None:
        on_point(1.0)


class Unpickled:
    """Remembers the thread that unpickled it last."""

    thread = ""

    def __reduce__(self) -> Any:
        return _unpickled, ()


def _unpickled() -> int:
    Unpickled.thread = threading.current_thread().name
    return 1


@contextmanager
def served(target: object, transport: str = "auto", **options: Any) -> Iterator[tuple[Server, Any]]:
    protocol = Protocol(KEY)
    with (
        Server(target, protocol=protocol, **options) as server,
        Proxy(server.rep_endpoint, protocol=protocol, timeout=TIMEOUT, transport=transport) as proxy,
    ):
        yield server, proxy


@pytest.mark.xfail(reason="a class among members can only be called")
@pytest.mark.parametrize("member", ["attribute", "item", "iteration"])
def test_a_class_among_members_has_its_values(member: str) -> None:
    with served(Meter()) as (_, meter):
        dc = {
            "attribute": lambda: meter.Mode.DC,
            "item": lambda: meter.Mode["DC"],
            "iteration": lambda: next(iter(meter.Mode)),
        }[member]()
        assert dc is Meter.Mode.DC
        meter.mode = dc
        assert meter.mode is Meter.Mode.DC


@pytest.mark.xfail(reason="a reference is compared by its path")
def test_a_reference_to_a_list_is_equal_to_the_same_list() -> None:
    with served(Meter()) as (_, meter):
        assert meter.track == [1.0, 2.0]


@pytest.mark.xfail(reason="a reference becomes an array of one object")
def test_a_reference_becomes_the_array_that_its_object_makes() -> None:
    with served(Meter()) as (_, meter):
        assert np.asarray(meter.temperature).tolist() == [4.2]


@pytest.mark.xfail(reason="a reference is always true")
def test_a_reference_is_as_true_as_its_object() -> None:
    with served(Meter()) as (_, meter):
        assert not meter.temperature


@pytest.mark.xfail(reason="references have no arithmetic")
@pytest.mark.parametrize("operation", ["float", "+"])
def test_a_reference_can_be_reckoned_with_where_its_object_can(operation: str) -> None:
    with served(Meter()) as (_, meter):
        temperature = meter.temperature
        assert (float(temperature) if operation == "float" else temperature + 0.0) == 4.2


@pytest.mark.xfail(reason="bound methods are copied")
def test_a_bound_method_as_argument_is_called_at_the_caller() -> None:
    points: list[float] = []
    with served(Meter()) as (_, meter):
        meter.scan(points.append)
    assert points == [1.0]


@pytest.mark.xfail(reason="the exception becomes its name and text")
def test_a_remote_context_manager_sees_the_exception_itself() -> None:
    target = Meter()
    with served(target) as (_, meter), pytest.raises(ValueError, match="bad"), meter.session:
        raise ValueError("bad")
    assert isinstance(target.session.seen, ValueError)


@pytest.mark.xfail(reason="whatever has connect, disconnect and emit is taken for a signal")
def test_an_object_with_connect_disconnect_and_emit_is_no_signal() -> None:
    with served(Meter()) as (_, meter):
        assert meter.laser.connect("COM4") == "connected COM4"
        assert meter.laser.emit(3.0) == 3.0


@pytest.mark.xfail(reason="what only __setattr__ knows cannot be set")
def test_a_member_that_only_setattr_knows_can_be_set_when_it_is_listed() -> None:
    with served(Widened(), settable=("limits",)) as (_, meter):
        meter.limits = [0, 5]


@pytest.mark.xfail(strict=False, reason="small contents by REP are unpickled in the I/O thread")
def test_an_argument_over_tcp_is_not_unpickled_in_the_io_thread() -> None:
    class Taker:
        def take(self, value: object) -> None: ...

    with served(Taker(), "tcp") as (_, taker):
        taker.take(Unpickled())
    assert Unpickled.thread != "pzc-io"


@pytest.mark.xfail(reason="each awaited idempotent call has a thread")
def test_awaited_idempotent_calls_share_threads() -> None:
    class Gauge:
        def __init__(self) -> None:
            self.entered, self.opened = threading.Event(), threading.Event()

        @idempotent
        def read(self) -> int:
            self.entered.set()
            assert self.opened.wait(TIMEOUT)
            return 5

    gauge = Gauge()

    async def main(endpoint: str) -> int:
        async with aio.Proxy(endpoint, timeout=TIMEOUT, protocol=Protocol(KEY)) as proxy:
            readings = [asyncio.ensure_future(proxy.read()) for _ in range(100)]
            await asyncio.get_running_loop().run_in_executor(pool, gauge.entered.wait, TIMEOUT)
            count = sum(each.name.startswith("pzc-aio") for each in threading.enumerate())
            gauge.opened.set()
            assert await asyncio.gather(*readings) == [5] * 100
            return count

    with ThreadPoolExecutor(1) as pool, served(gauge) as (server, _):
        assert asyncio.run(main(server.rep_endpoint)) <= 16


@pytest.mark.xfail(reason="its constructor takes other arguments than it keeps")
def test_an_exception_of_two_arguments_arrives_as_a_value() -> None:
    class Holder:
        def last(self) -> Exception:
            return Tripped(1, 2.0)

    with served(Holder()) as (_, holder):
        assert holder.last().channel == 1
