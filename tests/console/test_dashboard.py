"""The dashboard for Grafana: it asks for metrics that there are, and its panels stand beside each other."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from pzc.console.monitor.metrics import Metrics
from pzc.console.monitor.state import LabState

FILE = Path(__file__).resolve().parents[2] / "docs" / "grafana-dashboard.json"


@pytest.fixture
def dashboard() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_metric_that_is_asked_for_is_told(dashboard: dict[str, Any]) -> None:
    told = set[str]()
    for family in Metrics(lambda: nullcontext(LabState())).collect():
        told.add(family.name + ("_total" if family.type == "counter" else ""))
    asked = set(re.findall(r"\bpzc_\w+", " ".join(expressions(dashboard))))
    assert asked <= told
    assert len(asked) > 10


def test_every_variable_that_is_used_is_there(dashboard: dict[str, Any]) -> None:
    names = {each["name"] for each in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"]))) - {"__rate_interval"}
    assert used == names


def test_panels_do_not_lie_on_one_another(dashboard: dict[str, Any]) -> None:
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_trouble_stands_on_top(dashboard: dict[str, Any]) -> None:
    top = [panel for panel in dashboard["panels"] if panel["gridPos"]["y"] == 0]
    assert "pzc_troubles" in top[0]["targets"][0]["expr"]
