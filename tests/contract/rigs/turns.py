"""Turns of an event loop: what lets everything else in it go on, and takes no time."""

from __future__ import annotations

import asyncio


async def turns(count: int = 1) -> None:
    """Return when what is ready now has run, so many times."""
    loop = asyncio.get_running_loop()
    for _ in range(count):
        passed = asyncio.Event()
        loop.call_soon(passed.set)
        await passed.wait()
