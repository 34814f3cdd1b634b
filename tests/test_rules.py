"""What the tests of the contract may touch is checked, and the check sees what it must."""

from __future__ import annotations

import pytest

from tests.contract import rules


def test_the_contract_touches_public_names_only() -> None:
    assert not list(rules.broken())


@pytest.mark.parametrize(
    "code",
    [
        "import pzc.transport.wire",
        "from pzc.agents import wire",
        "from pzc import agents",
        "from tests.agents.calling import KEY",
        "import pzc\npzc.transport.wire.now_ms = None",
        "def test(agent): agent._publisher",
        "def test(monkeypatch): monkeypatch.setattr('pzc.Server', None)",
        "from unittest.mock import patch",
        "CHILD = '''\nfrom pzc.agents import wire\n'''",
        "CHILD = 'from tests.agents.test_wire import *'",
        "import importlib\nfrom pzc.protocol import codec",
    ],
)
def test_a_look_inside_is_found(code: str) -> None:
    assert rules.violations(code)


@pytest.mark.parametrize(
    "code",
    [
        "from pzc import Agent, Proxy, aio\nfrom pzc.protocol import Limits\nfrom pzc.testing import Timings",
        "import os\nos._exit(0)",
        "class A:\n    def f(self): return self._mine",
        "def test(proxy): proxy._proxy_stop_server()",
        "CHILD = '''\nfrom pzc import Agent\n'''",
        "TEXT = 'import pzc twice as fast'",
    ],
)
def test_public_names_are_no_violation(code: str) -> None:
    assert not rules.violations(code)
