"""zenoh: peers on loopback, shared memory as it comes, no scouting; reliable, a congested publisher waits."""

from __future__ import annotations

import importlib
import json
import socket
from typing import Any

from benchmarks.ends import TOPIC, CallbackReader, Setting, Writer

POOL = 4
"""Payloads that the pool of shared memory holds, at least 16 MiB."""


def _session(setting: Setting, **endpoints: str) -> Any:
    zenoh: Any = importlib.import_module("zenoh")
    config = zenoh.Config()
    pool = max(16 << 20, POOL * (setting.size + 4096))
    values = {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/shared_memory/enabled": True,
        "transport/shared_memory/transport_optimization/pool_size": pool,
        "listen/endpoints": [],
        **{f"{what}/endpoints": [endpoint] for what, endpoint in endpoints.items()},
    }
    for key, value in values.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


class ZenohWriter(Writer):
    """A publisher that waits when its way is full, and never drops."""

    def __init__(self, setting: Setting) -> None:
        zenoh: Any = importlib.import_module("zenoh")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"tcp/127.0.0.1:{free.getsockname()[1]}"
        self._session = _session(setting, listen=self.address)
        self._publisher = self._session.declare_publisher(
            TOPIC,
            congestion_control=zenoh.CongestionControl.BLOCK,
            reliability=zenoh.Reliability.RELIABLE,
        )

    def send(self, payload: Any) -> None:
        """Publish it; an array as the bytearray that it lies in, which is what zenoh takes."""
        self._publisher.put(payload if isinstance(payload, bytes) else payload.base.obj)

    def close(self) -> None:
        """Close the session."""
        self._session.close()


class ZenohReader(CallbackReader):
    """A subscriber with a callback."""

    def __init__(self, setting: Setting, address: str) -> None:
        super().__init__()
        self._session = _session(setting, connect=address)
        self._subscriber = self._session.declare_subscriber(
            TOPIC, lambda sample: self.arrived(sample.payload.to_bytes())
        )

    def close(self) -> None:
        """Close the session."""
        self._session.close()
