from __future__ import annotations

import asyncio
import inspect
import logging
import operator
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from pzc import AgentClosed, CallTimeout, ConfigError, MemberRefused, PeerLost, Protocol, Server, aio

from tests.contract.rigs.benches import Bench, bench_served, proxy_of, reached, run
from tests.contract.rigs.calling import KEY, TIMEOUT, ServerProcess, in_thread
from tests.contract.rigs.turns import turns


@pytest.fixture
def bench() -> Iterator[tuple[Bench, str]]:
    with bench_served() as served:
        yield served


@pytest.fixture
def silent() -> Iterator[str]:
    """An endpoint that takes requests and never answers."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.bind("tcp://127.0.0.1:*")
        yield socket.getsockopt_string(zmq.LAST_ENDPOINT)


def test_an_attribute_is_set_and_read(bench: tuple[Bench, str]) -> None:
    async def main() -> float:
        async with proxy_of(bench[1]) as psu:
            await psu.voltage.set(3.3)
            return await psu.voltage

    assert run(main()) == 3.3
    assert bench[0].voltage == 3.3


def test_a_method_is_called_with_its_arguments(bench: tuple[Bench, str]) -> None:
    async def main() -> list[int]:
        async with proxy_of(bench[1]) as psu:
            return [await psu.ramp(3), await psu.ramp(3, 4), await psu.ramp(a=3, b=5)]

    assert run(main()) == [6, 12, 15]


def test_a_mapping_is_read_and_changed(bench: tuple[Bench, str]) -> None:
    async def main() -> list[Any]:
        async with proxy_of(bench[1]) as psu:
            items = psu.calibration
            await items.set_item(3, 4)
            seen = [await items[1], await items.get(9, "none"), await items.length(), await items.contains(3)]
            await items.delete_item(1)
            return [*seen, await items.keys(), await items.values(), await items.items(), await items.copy()]

    assert run(main()) == [2, "none", 2, True, [3], [4], [(3, 4)], {3: 4}]


def test_a_mapping_cannot_be_iterated_by_accident(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            items: Any = psu.calibration
            with pytest.raises(TypeError, match="not iterable"):
                list(items)
            with pytest.raises(TypeError, match=r"not (iterable|a container)"):
                operator.contains(items, 1)

    run(main())


@pytest.mark.parametrize("name", ["ramp", "calibration", "voltage_changed"])
def test_a_member_that_is_not_sent_by_value_is_held(bench: tuple[Bench, str], name: str) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            held = await getattr(psu, name)
            assert isinstance(held, aio.RemoteReference)
            assert held.__name__ == name

    run(main())


def test_making_a_proxy_asks_nobody(silent: str) -> None:
    before = threading.enumerate()
    psu = proxy_of(silent)
    assert repr(psu.ch1.voltage) == f"<awaitable remote member ch1.voltage of {silent}>"
    assert threading.enumerate() == before


def test_members_are_known_before_the_first_await(bench: tuple[Bench, str]) -> None:
    psu = proxy_of(bench[1])
    assert {"ramp", "voltage"} <= set(dir(psu))
    assert {"set_item", "length"} <= set(dir(psu.calibration))
    assert "set" in dir(psu.voltage)
    run(aio.close(psu))


def test_nobody_waits_long_for_the_members_of_a_silent_server(silent: str) -> None:
    psu = proxy_of(silent, timeout=1.0)
    began = time.monotonic()
    assert dir(psu) == []
    assert time.monotonic() - began < 5.0
    run(aio.close(psu))


def test_an_await_connects_the_proxy_and_then_its_members_are_known(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        psu = await proxy_of(bench[1])
        assert {"ramp", "voltage"} <= set(dir(psu))
        assert psu.ramp.__doc__ == "Multiply."
        assert list(inspect.signature(psu.ramp).parameters) == ["a", "b"]
        await aio.close(psu)

    run(main())


def test_the_event_loop_goes_on_while_a_proxy_is_connected(silent: str) -> None:
    async def main() -> None:
        psu = proxy_of(silent, timeout=0.3)
        waiting = asyncio.ensure_future(psu.voltage)
        await turns(100)
        assert not waiting.done()
        with pytest.raises((CallTimeout, PeerLost)):
            await waiting

    run(main())


def test_a_failed_connection_is_tried_again_by_the_next_await() -> None:
    with Server(Bench(), protocol=Protocol(KEY)) as server:
        endpoint = server.rep_endpoint
    psu = proxy_of(endpoint, timeout=2.0)

    async def fail() -> None:
        with pytest.raises((CallTimeout, PeerLost)):
            await psu.ramp(1)

    async def succeed() -> int:
        async with psu:
            return await psu.ramp(1)

    run(fail())
    with Server(Bench(), endpoint, protocol=Protocol(KEY)):
        assert run(succeed()) == 2


def test_a_hundred_tasks_share_one_proxy_and_one_connection() -> None:
    async def main(endpoint: str) -> list[int]:
        psu = aio.Proxy(endpoint, protocol=Protocol(KEY), timeout=TIMEOUT)
        calls = asyncio.gather(*(psu.ramp(number) for number in range(100)))
        await turns()
        assert sum(thread.name == "pzc-aio" for thread in threading.enumerate()) <= 1
        results = await calls
        await aio.close(psu)
        return results

    with ServerProcess("Instrument") as process:
        assert run(main(process.endpoint)) == [2 * number for number in range(100)]


def test_a_connected_call_needs_no_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(endpoint: str) -> int:
        async with proxy_of(endpoint) as psu:
            with monkeypatch.context() as patch:
                patch.setattr(threading, "Thread", None)
                return await psu.ramp(21)

    with ServerProcess("Instrument") as process:
        assert run(main(process.endpoint)) == 42


def test_an_exception_is_itself(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            with pytest.raises(ValueError, match="out of range"):
                await psu.fail()

    run(main())


def test_a_member_that_does_not_exist_is_told_by_the_await(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            with pytest.raises(AttributeError, match="nothing"):
                await psu.nothing

    run(main())


def test_an_assignment_says_how_to_set() -> None:
    with pytest.raises(MemberRefused, match=r"await proxy\.voltage\.set\(value\)"):
        aio.Proxy("tcp://127.0.0.1:1").voltage = 1.0


def test_an_argument_that_cannot_be_used_is_told_by_the_first_await() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="timeout"):
            await aio.Proxy("tcp://127.0.0.1:1", timeout=-1.0)

    run(main())


def test_a_call_ends_at_its_timeout(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        async with proxy_of(bench[1]) as psu:
            with pytest.raises(CallTimeout):
                await psu.wait.options(timeout=0.2)()

    run(main())


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_cancelled_task_tells_a_call_that_runs(
    bench: tuple[Bench, str], transport: str, idempotent: bool
) -> None:
    served, endpoint = bench

    async def main() -> None:
        async with proxy_of(endpoint, transport=transport) as psu:
            task = asyncio.create_task(psu.run_until_cancelled.options(idempotent=idempotent)())
            await reached(served.entered)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await reached(served.ended)

    run(main())


def test_a_task_that_is_cancelled_while_it_connects_leaves_nothing(silent: str) -> None:
    async def main() -> None:
        psu = proxy_of(silent, timeout=0.3)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(psu.voltage, 0.05)

    run(main())


def test_a_cancelled_task_does_not_spoil_the_connection_for_others(bench: tuple[Bench, str]) -> None:
    async def main() -> int:
        psu = proxy_of(bench[1])
        first, second = asyncio.create_task(psu.ramp(1)), asyncio.create_task(psu.ramp(2))
        await turns()
        first.cancel()
        result = await second
        await aio.close(psu)
        return result

    assert run(main()) == 4


def test_a_proxy_outlives_the_event_loop_it_was_first_used_in(bench: tuple[Bench, str]) -> None:
    psu = proxy_of(bench[1])

    async def call(number: int) -> int:
        return await psu.ramp(number)

    assert [run(call(number)) for number in range(3)] == [0, 2, 4]
    run(aio.close(psu))


def test_a_reply_for_an_event_loop_that_was_closed_is_dropped_quietly(
    bench: tuple[Bench, str], caplog: pytest.LogCaptureFixture
) -> None:
    served, endpoint = bench
    psu = proxy_of(endpoint)
    loop = asyncio.new_event_loop()
    call = loop.run_until_complete(_begun(psu, served))
    loop.close()
    served.opened.set()
    assert run(_ramp(psu)) == 2
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    run(aio.close(psu))
    call.close()


async def _begun(psu: aio.Proxy, served: Bench) -> aio.Call:
    """A call that waits at the server, and whose event loop will not go on with it."""
    await psu
    call = psu.wait()
    call.send(None)
    await asyncio.to_thread(served.entered.wait, TIMEOUT)
    return call


async def _ramp(psu: aio.Proxy) -> int:
    return await psu.ramp(1)


def test_a_call_can_be_given_to_a_task_group(bench: tuple[Bench, str]) -> None:
    async def main() -> int:
        async with proxy_of(bench[1]) as psu, asyncio.TaskGroup() as group:
            task = group.create_task(psu.ramp(21))
        return task.result()

    assert run(main()) == 42


def test_a_forgotten_await_is_told() -> None:
    with pytest.warns(RuntimeWarning, match=r"'ramp of tcp://127\.0\.0\.1:1' was never awaited"):
        aio.Proxy("tcp://127.0.0.1:1").ramp(1)


def test_a_task_is_shown_with_the_call_that_it_awaits(bench: tuple[Bench, str]) -> None:
    async def main() -> str:
        async with proxy_of(bench[1]) as psu:
            task = asyncio.create_task(psu.ramp(2))
            shown = repr(task)
            await task
            return shown

    assert f"ramp of {bench[1]}" in run(main())


def test_an_idempotent_call_gives_its_result(bench: tuple[Bench, str]) -> None:
    async def main() -> int:
        async with proxy_of(bench[1]) as psu:
            return await psu.ramp.options(idempotent=True)(2)

    assert run(main()) == 4


def test_a_closed_proxy_says_so(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        psu = await proxy_of(bench[1])
        await aio.close(psu)
        await aio.close(psu)
        with pytest.raises(AgentClosed):
            await psu.ramp(1)

    run(main())


def test_a_proxy_that_was_closed_before_its_first_use_says_so(bench: tuple[Bench, str]) -> None:
    async def main() -> None:
        psu = proxy_of(bench[1])
        await aio.close(psu)
        with pytest.raises(AgentClosed):
            await psu

    run(main())


def test_a_dropped_proxy_leaves_nothing(bench: tuple[Bench, str]) -> None:
    async def main() -> float:
        return await proxy_of(bench[1]).voltage

    assert run(main()) == 0.0


def test_a_proxy_works_again_after_its_server_was_restarted() -> None:
    async def main(psu: aio.Proxy) -> int:
        return await psu.ramp(1)

    with Server(Bench(), protocol=Protocol(KEY)) as server:
        psu = proxy_of(server.rep_endpoint)
        assert run(main(psu)) == 2
    with Server(Bench(), server.rep_endpoint, protocol=Protocol(KEY)):
        assert run(main(psu)) == 2
        run(aio.close(psu))


def test_private_members_are_refused_at_once() -> None:
    proxy = aio.Proxy("tcp://127.0.0.1:1")
    with pytest.raises(MemberRefused, match="private"):
        getattr(proxy, "_secret")  # noqa: B009


def test_two_event_loops_in_two_threads_share_one_proxy(bench: tuple[Bench, str]) -> None:
    psu = proxy_of(bench[1])

    async def calls(factor: int) -> list[int]:
        return await asyncio.gather(*(psu.ramp(number, factor) for number in range(50)))

    started = [in_thread(lambda factor=factor: run(calls(factor))) for factor in (2, 3)]
    for thread, _ in started:
        thread.join(TIMEOUT)
    assert [outcome for _, outcome in started] == [[[n * factor for n in range(50)]] for factor in (2, 3)]
    run(aio.close(psu))
