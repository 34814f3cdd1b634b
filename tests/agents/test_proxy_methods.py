from __future__ import annotations

import gc
import weakref

from pzc import Proxy, Server

from tests.contract.rigs.calling import TIMEOUT, Instrument


def test_a_proxy_whose_methods_were_used_ends_with_its_last_reference() -> None:
    with Server(Instrument()) as server:
        gc.disable()
        try:
            psu = Proxy(server.rep_endpoint)
            assert psu.ramp(2) == 4
            shared, gone = psu._proxy_remote.agent, weakref.ref(psu)
            del psu
            assert gone() is None
            assert shared.join(TIMEOUT)
        finally:
            gc.enable()


def test_a_method_outlives_its_proxy_and_keeps_it_open() -> None:
    with Server(Instrument()) as server:
        psu = Proxy(server.rep_endpoint)
        ramp, gone = psu.ramp, weakref.ref(psu)
        shared = psu._proxy_remote.agent
        del psu
        gc.collect()
        assert gone() is None
        assert ramp(2) == 4
        assert ramp.options(timeout=TIMEOUT)(3) == 6
        del ramp
        gc.collect()
        assert shared.join(TIMEOUT)
