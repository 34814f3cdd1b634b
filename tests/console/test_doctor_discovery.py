"""What ``pzc doctor`` tells of other partitions, keys and relays."""

from __future__ import annotations

from typing import Any

from tests.console.command import Console

KEY = "correct horse battery staple"


def _found(pzc: Console, check: str) -> dict[str, Any]:
    outcome = pzc("doctor", "--json")
    [found] = [each for each in outcome.json["findings"] if each["check"] == check]
    return found


def test_others_of_another_partition_are_heard_by_name(pzc: Console) -> None:
    pzc.environment["PZC_PARTITION"] = "sim"
    process, _ = pzc.serve("--name", "psu")
    del pzc.environment["PZC_PARTITION"]
    finding = _found(pzc, "multicast others")
    (told,) = finding["details"]["processes"]
    assert (told["pid"], told["partition"], told["names"]) == (process.pid, "sim", ["/psu"])
    assert "in partition sim" in finding["found"]


def test_signed_datagrams_are_told_to_one_without_a_key(pzc: Console) -> None:
    pzc.environment["PZC_KEY"] = KEY
    pzc.serve("--name", "psu")
    del pzc.environment["PZC_KEY"]
    assert "set their PZC_KEY here" in _found(pzc, "multicast foreign key")["todo"]


def test_a_relay_that_is_not_known_has_failed(pzc: Console) -> None:
    pzc.environment["PZC_RELAY"] = "nohost.invalid:7,127.0.0.1"
    finding = _found(pzc, "relay nohost.invalid")
    assert finding["status"] == "failed"
    assert "nohost.invalid:7 is not known" in finding["found"]
    assert _found(pzc, "relay 127.0.0.1")["details"] == {"address": "127.0.0.1"}
