"""What ``pzc doctor`` tells of other partitions, keys and relays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.contract.rigs.console import KEY, Console
from tests.contract.rigs.naming import saying_by_a_clock_that_is_off


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


def test_others_that_announce_with_an_observers_key_are_told(console: Console, tmp_path: Path) -> None:
    keys = "".join(
        f'[keys.{name}]\nsecret = "the long secret of {name}"\nrole = "{name}"\n'
        for name in ("operator", "observer")
    )
    for name in ("operator", "observer"):
        (tmp_path / name).write_text(f'active = "{name}"\n{keys}', encoding="ascii")
        (tmp_path / name).chmod(0o600)
    console.environment["PZC_KEYRING"] = str(tmp_path / "observer")
    console.serve("--name", "psu")
    console.environment["PZC_KEYRING"] = str(tmp_path / "operator")
    [finding] = _found(console, "multicast role")
    assert "operator" in finding["todo"]


def test_a_clock_that_is_too_far_off_is_told(console: Console) -> None:
    console.environment["PZC_KEY"] = KEY
    with saying_by_a_clock_that_is_off(-3600.0, KEY):
        [finding] = _found(console, "multicast clocks")
    assert finding["status"] == "warning"
    assert "3600 s behind" in finding["found"]


def test_a_relay_that_is_not_known_has_failed(console: Console) -> None:
    console.environment["PZC_RELAY"] = "nohost.invalid:7,127.0.0.1"
    finding, known = _found(console, "relay nohost.invalid", "relay 127.0.0.1")
    assert finding["status"] == "failed"
    assert "nohost.invalid:7 is not known" in finding["found"]
    assert known["details"] == {"address": "127.0.0.1"}
