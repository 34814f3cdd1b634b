"""How a site is written in settings, and what is refused with an example of how it should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pzc.discovery import site


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (site.group, "off", ""),
        (site.group, "239.1.2.3", "239.1.2.3"),
        (site.port, "65535", 65535),
        (site.address, "", None),
        (site.address, "10.0.0.7", "10.0.0.7"),
        (site.relays, "", ()),
        (site.relays, "rack, 10.0.0.2:99,", (("rack", None), ("10.0.0.2", 99))),
        (site.registry, "", ""),
        (site.registry, "tcp://10.0.0.2:10318", "tcp://10.0.0.2:10318"),
    ],
)
def test_it_is_read(read: Callable[[str], Any], text: str, expected: object) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("read", "texts", "example"),
    [
        (site.group, ["10.0.0.1", "x", ""], "239.255.80.90, or off"),
        (site.port, ["0", "65536", "-1", "x", "", "٣", "9" * 99], "such as 10317"),
        (site.address, ["x", "0.0.0.0", "239.1.2.3"], "such as 10.0.0.7"),
        (site.relays, ["a b", "rack:", "rack:1:2"], "HOST or HOST:PORT"),
        (site.relays, ["rack:0"], "such as 10317"),
        (site.registry, ["rack", "tcp://rack", "udp://rack:1"], "such as tcp://"),
    ],
)
def test_anything_else_is_refused(read: Callable[[str], Any], texts: list[str], example: str) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=example):
            read(text)
