from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pzc import ConfigError
from pzc.protocol import Limits, limits
from pzc.testing import Timings


def test_every_limit_is_explained() -> None:
    source = Path(limits.__file__).read_text(encoding="utf-8")
    told = re.findall(r"^    (\w+): (?:Seconds|Bytes|Count) = .*  # .", source, re.MULTILINE)
    assert tuple(told) == Limits.__struct_fields__


def test_every_limit_is_named_on_its_page() -> None:
    page = (Path(limits.__file__).parents[1] / "docs" / "limits.md").read_text(encoding="utf-8")
    assert [name for name in Limits.__struct_fields__ if f"`{name}`" not in page] == []


def test_a_limit_that_is_a_constant_now_is_not_called_misspelt() -> None:
    with pytest.raises(ConfigError, match=r"pzc\.toml: results_kept is a constant now"):
        limits.changed(Limits(), {"results_kept": 1}, "pzc.toml")


def test_a_table_replaces_what_it_names_and_keeps_the_rest() -> None:
    made = limits.changed(Limits(streams=7), {"silence": 1, "links": 3}, "here")
    assert made == Limits(streams=7, silence=1.0, links=3)
    assert type(made.silence) is float


def test_an_unknown_limit_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"pzc\.toml: silense is not known; did you mean silence\?"):
        limits.changed(Limits(), {"silense": 1}, "pzc.toml")


@pytest.mark.parametrize(
    "table",
    [
        {"silence": "4"},
        {"silence": True},
        {"silence": -1},
        {"silence": math.nan},
        {"links": 1.5},
        {"links": []},
    ],
)
def test_a_value_of_another_kind_is_refused(table: dict[str, Any]) -> None:
    (name,) = table
    with pytest.raises(ConfigError, match=f"here: Expected .* for `{name}`"):
        limits.changed(Limits(), table, "here")


def test_limits_cannot_be_changed_in_place() -> None:
    with pytest.raises(AttributeError):
        limits.current.silence = 1.0  # pyright: ignore[reportAttributeAccessIssue]


def test_timings_hold_inside_their_block() -> None:
    before = limits.current
    with Timings(silence=0.2):
        with Timings(links=1):
            assert (limits.current.silence, limits.current.links) == (Limits().silence, 1)
        assert limits.current.silence == 0.2
    assert limits.current is before


def test_timings_that_do_not_exist_are_refused_when_they_are_made() -> None:
    with pytest.raises(ConfigError, match="Timings: sillence is not known"):
        Timings(sillence=1)


def test_the_fixture_adds_to_what_it_changed_before(timings: Callable[..., None]) -> None:
    timings(silence=0.2)
    timings(links=1)
    assert (limits.current.silence, limits.current.links) == (0.2, 1)


def test_timings_are_written_as_a_settings_file(tmp_path: Path) -> None:
    path = Timings(silence=0.2, link_look=math.inf, links=3).write(tmp_path)
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    assert (
        limits.changed(Limits(), table["limits"], str(path))
        == Timings(silence=0.2, link_look=math.inf, links=3).limits
    )
