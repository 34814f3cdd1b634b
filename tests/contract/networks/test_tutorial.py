"""Pages for two machines, typed as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.rigs.namespaces import Lab
from tests.contract.rigs.pages import Machine, follow

UNSET = ("PZC_IP", "PZC_KEY", "PZC_DISCOVERY_PORT")

pytestmark = [pytest.mark.once, pytest.mark.timeout(240)]


@pytest.mark.parametrize("page", [pytest.param("tutorial.md", marks=pytest.mark.java), "firewall.md"])
def test_a_page_for_two_machines_does_what_it_says(page: str, lab: Lab, tmp_path: Path) -> None:
    segment, machines = lab.segment(), dict[str, Machine]()
    for name in ("rack", "desk"):
        (tmp_path / name).mkdir()
        host = lab.host(f"{name}{page[0]}", segment)
        machines[name] = Machine(tmp_path / name, ("ip", "netns", "exec", host.namespace), UNSET)
    try:
        follow(page, machines)
    finally:
        machines["rack"].type("pzc down")
