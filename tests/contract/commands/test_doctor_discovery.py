"""What ``pzc doctor`` tells of other partitions, keys and relays."""

from __future__ import annotations

from typing import Any

from tests.contract.rigs.console import KEY, Console


def _found(console: Console, *checks: str) -> list[dict[str, Any]]:
    """What one run tells of some checks."""
    findings = console("doctor", "--json").json["findings"]
    return [next(each for each in findings if each["check"] == check) for check in checks]


def test_others_of_another_partition_are_heard_by_name(console: Console) -> None:
    console.environment["PZC_PARTITION"] = "sim"
    process, _ = console.serve("--name", "psu")
    console.environment["PZC_PARTITION"] = None
    [finding] = _found(console, "multicast others")
    (told,) = finding["details"]["processes"]
    assert (told["pid"], told["partition"], told["names"]) == (process.pid, "sim", ["/psu"])
    assert "in partition sim" in finding["found"]


def test_signed_datagrams_are_told_to_one_without_a_key(console: Console) -> None:
    console.environment["PZC_KEY"] = KEY
    console.serve("--name", "psu")
    console.environment["PZC_KEY"] = None
    [finding] = _found(console, "multicast foreign key")
    assert "set their PZC_KEY here" in finding["todo"]


def test_a_relay_that_is_not_known_has_failed(console: Console) -> None:
    console.environment["PZC_RELAY"] = "nohost.invalid:7,127.0.0.1"
    finding, known = _found(console, "relay nohost.invalid", "relay 127.0.0.1")
    assert finding["status"] == "failed"
    assert "nohost.invalid:7 is not known" in finding["found"]
    assert known["details"] == {"address": "127.0.0.1"}
