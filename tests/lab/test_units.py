"""What a lab file means: command lines that `pzc` understands."""

from __future__ import annotations

from pathlib import Path

import pytest

from pzc import PzcError
from pzc.console.main import parse
from pzc.console.targets import parse_arguments
from pzc.lab.file import read_lab
from pzc.lab.places import Places
from pzc.lab.units import ORDER, Unit, chosen, environment_of, units_of

WHOLE = """
[lab]
name = "bench"
keyring = "server.keyring"
partition = "east"
metrics = 9464
monitor = 0
[pipeline]
tables = "tables"
limits = "limits.toml"
[recorder]
journal = "journal"
keep_days = 30
calls = true
[registry]
bind = "tcp://0.0.0.0:10318"
state = "topics.json"
[server.psu]
object = "fractions:Fraction"
args = [3, "3", "TCPIP::1", -2.5, true, [1, "a b"], { low = "x=1" }]
kwargs = { timeout = 2.0, name = "7" }
bind = "tcp://0.0.0.0:5555"
poll = { voltage = 0.1, "ch1.current" = 2 }
urgent = ["off", "abort"]
reading = ["trace"]
concurrent = ["trace", "position"]
expose = ["off", "abort", "trace"]
on_cancel = { ramp = "off" }
concurrency = 3
thread_affine = true
reads_while_locked = true
single_port = true
audit = "audit.log"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("server.keyring", "limits.toml"):
        (tmp_path / name).touch(mode=0o600)
    return tmp_path


def units(folder: Path, text: str) -> dict[str, Unit]:
    path = folder / "lab.toml"
    path.write_text(text, encoding="utf-8")
    return {unit.name: unit for unit in units_of(read_lab(path))}


def test_kinds_are_started_in_their_order(folder: Path) -> None:
    assert tuple(unit.kind for unit in units(folder, WHOLE).values()) == ORDER


def test_the_page_is_given_its_port_and_the_lab_file(folder: Path) -> None:
    given = parse(units(folder, WHOLE)["monitor"].arguments)
    assert (given.port, given.lab, given.operator) == (0, folder / "lab.toml", [])


def test_arguments_reach_the_class_as_they_stand_in_the_file(folder: Path) -> None:
    served = parse(units(folder, WHOLE)["psu"].arguments)
    assert parse_arguments(served.arguments) == (
        (3, "3", "TCPIP::1", -2.5, True, [1, "a b"], {"low": "x=1"}), {"timeout": 2.0, "name": "7"},
    )  # fmt: skip


def test_every_option_of_a_server_reaches_pzc_serve(folder: Path) -> None:
    served = parse(units(folder, WHOLE)["psu"].arguments)
    assert (served.name, served.bind, served.concurrency) == ("psu", "tcp://0.0.0.0:5555", 3)
    assert (served.urgent, served.reading, served.expose) == ("off,abort", "trace", "off,abort,trace")
    assert (served.poll, served.on_cancel) == (["voltage=0.1s", "ch1.current=2s"], ["ramp=off"])
    assert (served.thread_affine, served.reads_while_locked, served.single_port) == (True, True, True)
    assert served.concurrent == ["trace,position"]
    assert str(served.audit) == "audit.log"


def test_recorder_and_pipeline_share_a_journal(folder: Path) -> None:
    found = units(folder, WHOLE)
    recorder, pipeline = parse(found["recorder"].arguments), parse(found["pipeline"].arguments)
    assert (recorder.sources, str(recorder.journal), recorder.keep_days) == (["psu"], "journal", 30.0)
    assert recorder.name == "recorder-bench"
    assert (pipeline.origin, str(pipeline.tables), str(pipeline.limits)) == (
        "journal",
        "tables",
        "limits.toml",
    )


def test_every_process_has_the_keys_the_partition_and_the_registry_of_the_lab(folder: Path) -> None:
    units(folder, WHOLE)
    assert environment_of(read_lab(folder / "lab.toml")) == {
        "PZC_KEYRING": str(folder / "server.keyring"),
        "PZC_PARTITION": "east",
        "PZC_REGISTRY": "tcp://127.0.0.1:10318",
    }


def test_a_wrong_name_is_told_with_the_nearest(folder: Path) -> None:
    with pytest.raises(PzcError, match="did you mean recorder"):
        chosen(list(units(folder, WHOLE).values()), ["recoder"])


SERVER = '[server.psu]\nobject = "fractions:Fraction"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "starts nothing"),
        ("[server.psu]\nobjet = 1", "did you mean object"),
        ("[serwer.psu]", "did you mean server"),
        ("server = 3", "server is no table"),
        ("[server]\npsu = 3", r"\[server.psu\] is no table"),
        ("[server.psu]", "missing required field `object`"),
        ("[server.psu]\nobject = 'fractions'", "is not MODULE:CLASS"),
        ("[server.psu]\nobject = 'nowhere.at.all:Class'", "there is no module nowhere.at.all"),
        (f"{SERVER}bind = 'tcp://:5'", "is not an endpoint"),
        (f"{SERVER}restart = 'sometimes'", "`restart`; known are always, never, on-failure"),
        (f"{SERVER}restart = 'allways'", "`restart`; did you mean always"),
        (f"{SERVER}concurrency = 'many'", "concurrency"),
        (f"{SERVER}args = [1979-05-27]", "cannot be handed on"),
        (f"{SERVER}kwargs = {{ limits = [0, inf] }}", "expected a finite number"),
        (f"{SERVER}kwargs = {{ a-b = 1 }}", "'a-b' is no name of an argument"),
        (f"{SERVER}concurrency = 0", "for `concurrency`"),
        (f"{SERVER}[recorder]\njournal = 'j'\nkeep_days = -1", "for `keep_days`"),
        (f"{SERVER}poll = {{ voltage = inf }}", "a number of seconds"),
        (f"{SERVER}poll = {{ voltage = 0 }}", "a number of seconds"),
        ('[server."a b"]\nobject = "fractions:Fraction"', r"\[server.a b\]"),
        ('[server.lab]\nobject = "fractions:Fraction"', "cannot be called as the lab's own"),
        ('[server.recorder]\nobject = "fractions:Fraction"', "cannot be called as the lab's own"),
        (f"{SERVER}[pipeline]\ntables = 't'", r"needs a \[recorder\]"),
        (f"{SERVER}[lab]\nkeyring = 'none.keyring'", "there is no file"),
        (f"{SERVER}[lab]\ngrace = 0", "for `grace`"),
        (f"{SERVER}[lab]\ngrace = inf", "for `grace`"),
        (f"{SERVER}[lab]\npartition = 'a/b'", "partition"),
        (f"{SERVER}[lab]\nmetrics = 65536", "for `metrics`"),
        (f"{SERVER}[lab]\nmonitor = -1", "for `monitor`"),
        (f"{SERVER}bind = 'tcp://0.0.0.0:5'\n[server.dmm]\nobject = 'fractions:Fraction'\nbind = 'tcp://0.0.0.0:5'",
         "is that of psu, too"),
        ("[lab", "is not TOML"),
        ("[recorder]\njournal = 'j'", "has nothing to record"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_with_file_table_and_key(folder: Path, text: str, told: str) -> None:
    with pytest.raises(PzcError, match=told) as caught:
        units(folder, text)
    assert str(folder / "lab.toml") in str(caught.value)


def test_a_file_may_begin_with_the_mark_of_its_encoding(folder: Path) -> None:
    assert set(units(folder, f"\ufeff{SERVER}")) == set(units(folder, SERVER))


def test_an_empty_expose_lets_nothing_be_used(folder: Path) -> None:
    assert parse(units(folder, f"{SERVER}expose = []")["psu"].arguments).expose == ""


def test_a_lab_is_the_same_however_its_file_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units(folder, SERVER)
    (folder / "data").mkdir()
    (folder / "link").symlink_to(folder, target_is_directory=True)
    monkeypatch.chdir(folder / "data")
    paths = [folder / "lab.toml", Path("../lab.toml"), folder / "link" / "lab.toml"]
    assert len({Places(path).endpoint for path in paths}) == 1
    assert {read_lab(path).name for path in paths} == {folder.name}


def test_the_log_of_a_server_with_a_slash_in_its_name_is_beside_the_others(folder: Path) -> None:
    places = Places(folder / "lab.toml")
    assert {places.log_of(name).parent for name in ("psu", "east/psu", "/east/psu")} == {places.state}
