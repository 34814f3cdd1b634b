"""eCAL: shared memory for payloads and for registration, no network.

It loses what a slow reader misses. Nothing is signed.
"""

from __future__ import annotations

import importlib
from typing import Any

from benchmarks.ends import CallbackReader, Setting, Writer

LOOPBACK = "127.255.255.255"
"""Broadcast address of the loopback interface: eCAL's own choice for communication within one host."""


def _open(setting: Setting) -> Any:
    ecal: Any = importlib.import_module("ecal.nanobind_core")
    config = ecal.Configuration()
    config.registration.local.transport_type = ecal.LocalTransportType.SHM
    config.registration.local.shm.domain = f"bench{setting.token}"
    for way in (config.transport_layer.udp.local, config.transport_layer.udp.network):
        way.group, way.ttl = ecal.IpAddressV4(LOOPBACK), 0
    config.registration.registration_refresh = 100
    config.logging.provider.udp.enable = False
    config.logging.receiver.enable = False
    config.logging.provider.console.log_levels = [ecal.logging.LogLevel.FATAL]
    config.publisher.layer.udp.enable = False
    config.publisher.layer.tcp.enable = False
    config.subscriber.layer.udp.enable = False
    parts = ecal.init
    ecal.initialize(config, f"bench{setting.token}", parts.PUBLISHER | parts.SUBSCRIBER)
    return ecal, config


class EcalWriter(Writer):
    """A publisher; what it sends must be ``bytes``."""

    def __init__(self, setting: Setting) -> None:
        self._ecal, config = _open(setting)
        self._publisher = self._ecal.Publisher(f"bench-{setting.token}", config=config.publisher)

    def send(self, payload: Any) -> None:
        """Publish it."""
        self._publisher.send(payload if isinstance(payload, bytes) else payload.tobytes())

    def close(self) -> None:
        """End the library."""
        del self._publisher
        self._ecal.finalize()


class EcalReader(CallbackReader):
    """A subscriber with a callback."""

    def __init__(self, setting: Setting, address: str) -> None:
        super().__init__()
        self._ecal, config = _open(setting)
        self._subscriber = self._ecal.Subscriber(f"bench-{setting.token}", config=config.subscriber)
        self._subscriber.set_receive_callback(lambda topic, kind, data: self.arrived(data.buffer))

    def close(self) -> None:
        """End the library."""
        self._subscriber.remove_receive_callback()
        del self._subscriber
        self._ecal.finalize()
