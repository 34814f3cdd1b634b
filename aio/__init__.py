"""The awaitable face: ``psu = pzc.aio.Proxy("psu")``, then ``await psu.voltage``; see docs/asyncio.md."""

from ..agents.aio import (
    Call,
    Items,
    Notifications,
    Proxy,
    RemoteReference,
    batch,
    close,
    lock,
    watch,
)

__all__ = ["Call", "Items", "Notifications", "Proxy", "RemoteReference", "batch", "close", "lock", "watch"]
