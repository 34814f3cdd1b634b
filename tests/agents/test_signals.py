from __future__ import annotations

from pzc.agents.signals import accepted_arguments


def test_a_builtin_without_signature_gets_all_three() -> None:
    assert accepted_arguments(max) == 3
