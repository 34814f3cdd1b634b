"""The tutorial, typed as it stands on two machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.rigs.namespaces import Lab
from tests.contract.rigs.pages import Machine, follow


@pytest.mark.java
@pytest.mark.once
@pytest.mark.timeout(240)
def test_the_tutorial_does_what_it_says(lab: Lab, tmp_path: Path) -> None:
    segment, machines = lab.segment(), dict[str, Machine]()
    for name in ("rack", "desk"):
        (tmp_path / name).mkdir()
        host = lab.host(name, segment)
        machines[name] = Machine(
            tmp_path / name, ("ip", "netns", "exec", host.namespace), unset=("PZC_IP", "PZC_KEY")
        )
    try:
        follow("tutorial.md", machines)
    finally:
        machines["rack"].type("pzc down")
