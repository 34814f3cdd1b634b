"""The awaitable face: ``psu = pzc.aio.Proxy("psu")``, then ``await psu.voltage``; see docs/asyncio.md."""

from ..agents.awaiting.aio import Proxy, batch, close, lock
from ..agents.awaiting.aio_iteration import Call, Items, Notifications
from ..agents.awaiting.aio_reference import RemoteReference

__all__ = ["Call", "Items", "Notifications", "Proxy", "RemoteReference", "batch", "close", "lock"]
