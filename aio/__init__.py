"""The awaitable face: ``psu = pzc.aio.Proxy("psu")``, then ``await psu.voltage``; see docs/asyncio.md."""

from ..agents.awaiting.aio import Attribute, Proxy, batch, close, lock
from ..agents.awaiting.aio_iteration import Call, Items, Notifications

__all__ = ["Attribute", "Call", "Items", "Notifications", "Proxy", "batch", "close", "lock"]
