from __future__ import annotations

from pathlib import Path

import pytest

from pzc.protocol import limits
from pzc.protocol.errors import ConfigError
from pzc.testing import Timings
from pzc.transport.settings import load


def test_limits_of_the_settings_file_hold_from_then_on(tmp_path: Path) -> None:
    with Timings(links=3):
        settings = load({"PZC_CONFIG": str(Timings(silence=0.2).write(tmp_path))})
        assert dict(settings.limits) == {"silence": 0.2}
        assert settings.complaints() == []
        assert (limits.current.silence, limits.current.links) == (0.2, 3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[limits]\nsilense = 1", r"\[limits\]: silense is no limit; did you mean silence\?"),
        ("[limits]\nlinks = 'many'", r"\[limits\]: links = 'many' cannot be used"),
        ("limits = 4", r"\[limits\] is no table"),
    ],
)
def test_limits_that_cannot_be_used_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "pzc.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=told):
        load({"PZC_CONFIG": str(tmp_path / "pzc.toml")})
    assert limits.current == limits.Limits()
