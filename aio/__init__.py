"""The awaitable face: ``psu = pzc.aio.Proxy("psu")``, then ``await psu.voltage``; see docs/asyncio.md."""

from ..agents.aio import Proxy, batch, close, lock
from ..agents.client.awaitable.iteration import Call, Items, Notifications
from ..agents.client.awaitable.reference import RemoteReference
from ..agents.watch import watch

__all__ = ["Call", "Items", "Notifications", "Proxy", "RemoteReference", "batch", "close", "lock", "watch"]
