from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

import pytest

from pzc.protocol import limits
from pzc.protocol.errors import ConfigError
from pzc.protocol.keyring import Key, Role
from pzc.testing import Timings
from pzc.transport.settings import KNOWN, Settings, config_files, load

SECRET = "topsecret"  # named, because a traceback shows the lines of this file
GOOD = {
    "PZC_KEY": ("lab", "lab"),
    "PZC_KEY_FILE": ("/k", Path("/k")),
    "PZC_KEYRING": ("/r", Path("/r")),
    "PZC_SER": ("pickle2", "pickle2"),
    "PZC_ACCEPT": (" PZC00 , PZC01,", ("PZC00", "PZC01")),
    "PZC_SEAL": ("yes", True),
    "PZC_TIMEOUT": ("2.5", 2.5),
    "PZC_SINGLE_PORT": ("1", True),
    "PZC_PEERS": ("psu=tcp://a:1", "psu=tcp://a:1"),
    "PZC_HIDE_TRACEBACK": ("1", True),
    "PZC_TRANSPORT": ("unix", "unix"),
    "PZC_CONFIG": ("/c", Path("/c")),
    "PZC_PARTITION": ("lab", "lab"),
    "PZC_NAMESPACE": ("/robot1", "/robot1"),
    "PZC_IP": ("10.0.0.7", "10.0.0.7"),
    "PZC_DISCOVERY_IP": ("239.1.2.3", "239.1.2.3"),
    "PZC_DISCOVERY_PORT": ("4711", 4711),
    "PZC_RELAY": ("rack3, 10.0.0.9:4712", (("rack3", None), ("10.0.0.9", 4712))),
    "PZC_REGISTRY": ("tcp://10.0.0.2:10318", "tcp://10.0.0.2:10318"),
}
DEFAULTS = {
    "PZC_KEY": "",
    "PZC_KEY_FILE": None,
    "PZC_KEYRING": None,
    "PZC_SER": "pickle",
    "PZC_ACCEPT": ("PZC01", "PZC00"),
    "PZC_SEAL": False,
    "PZC_TIMEOUT": 30.0,
    "PZC_SINGLE_PORT": False,
    "PZC_PEERS": "",
    "PZC_HIDE_TRACEBACK": False,
    "PZC_TRANSPORT": "auto",
    "PZC_CONFIG": None,
    "PZC_PARTITION": "",
    "PZC_NAMESPACE": "",
    "PZC_IP": None,
    "PZC_DISCOVERY_IP": "239.255.80.90",
    "PZC_DISCOVERY_PORT": 10_317,
    "PZC_RELAY": (),
    "PZC_REGISTRY": "",
}
BAD = [
    ("PZC_KEY_FILE", "", "expected the path of a file"),
    ("PZC_KEYRING", "", "expected the path of a file"),
    ("PZC_CONFIG", "", "expected the path of a file"),
    ("PZC_SER", "yaml", "no serializer is called 'yaml'; known are"),
    ("PZC_SER", "", "no serializer is called ''"),
    ("PZC_ACCEPT", "", "expected a comma-separated list out of PZC01, PZC00"),
    ("PZC_ACCEPT", "PZC01,PZC02", "expected a comma-separated list out of PZC01, PZC00"),
    ("PZC_TRANSPORT", "udp", "expected one of auto, "),
    ("PZC_SEAL", "maybe", "expected 1 or 0"),
    ("PZC_HIDE_TRACEBACK", "2", "expected 1 or 0"),
    ("PZC_SINGLE_PORT", "2", "expected 1 or 0"),
    ("PZC_TIMEOUT", "soon", "expected a positive number of seconds"),
    ("PZC_TIMEOUT", "", "expected a positive number of seconds"),
    ("PZC_TIMEOUT", "0", "expected a positive number of seconds"),
    ("PZC_TIMEOUT", "-1", "expected a positive number of seconds"),
    ("PZC_TIMEOUT", "nan", "expected a positive number of seconds"),
    ("PZC_TIMEOUT", "inf", "expected a positive number of seconds"),
    ("PZC_PARTITION", "a/b", "is not one part of a name"),
    ("PZC_NAMESPACE", "two words", "a part holds printable characters"),
    ("PZC_IP", "rack3", "expected the IPv4 address of one of this machine's interfaces"),
    ("PZC_IP", "239.1.2.3", "expected the IPv4 address of one of this machine's interfaces"),
    ("PZC_DISCOVERY_IP", "10.0.0.7", "expected an IPv4 multicast address"),
    ("PZC_DISCOVERY_PORT", "0", "expected a port from 1 to 65535"),
    ("PZC_DISCOVERY_PORT", "65536", "expected a port from 1 to 65535"),
    ("PZC_DISCOVERY_PORT", "x", "expected a port from 1 to 65535"),
    ("PZC_RELAY", "a b", "expected HOST or HOST:PORT"),
    ("PZC_RELAY", "rack3:0", "expected a port from 1 to 65535"),
    ("PZC_REGISTRY", "rack3", "expected the endpoint of a registry"),
]
IN_FILE = {name: name.removeprefix("PZC_").lower() for name in KNOWN}


def test_every_setting_is_tested_here() -> None:
    assert KNOWN.keys() == GOOD.keys() == DEFAULTS.keys()


def test_each_setting_has_a_default() -> None:
    settings = Settings({}, {})
    assert {name: settings[name] for name in KNOWN} == DEFAULTS
    assert set(settings.origin.values()) == {"default"}


@pytest.mark.parametrize("name", GOOD)
def test_a_setting_is_read_from_the_environment_or_else_from_the_file(name: str) -> None:
    raw, value = GOOD[name]
    given = Settings({name: raw}, {})
    assert (given[name], given.origin[name]) == (value, f"environment variable {name}")
    filed = Settings({}, {IN_FILE[name]: raw}, "lab.toml")
    assert (filed[name], filed.origin[name]) == (value, f"lab.toml: {IN_FILE[name]}")
    both = Settings({name: raw}, {IN_FILE[name]: "unusable" if name == "PZC_SEAL" else raw})
    assert (both[name], both.origin[name]) == (value, f"environment variable {name}")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("seal", True, True),
        ("seal", False, False),
        ("timeout", 5, 5.0),
        ("timeout", 0.5, 0.5),
        ("accept", ["PZC00"], ("PZC00",)),
        ("key", 1234, "1234"),
    ],
)
def test_the_file_may_use_the_types_of_toml(key: str, value: object, expected: object) -> None:
    assert Settings({}, {key: value})[f"PZC_{key.upper()}"] == expected


@pytest.mark.parametrize("value", [{"secret": "topsecret"}, ["topsecret", 1], None])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(
        ConfigError, match=r"^pzc\.toml: key cannot be used: expected text, a number"
    ) as caught:
        Settings({}, {"key": value})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "value"),
    [("1", True), ("True", True), ("on", True), ("0", False), ("No", False), ("", False)],
)
def test_a_flag_is_written_as_people_write_it(raw: str, value: bool) -> None:
    assert Settings({"PZC_SEAL": raw}, {})["PZC_SEAL"] is value


@pytest.mark.parametrize(("name", "raw", "expected"), BAD)
def test_an_unusable_value_is_told_with_its_place_and_what_was_expected(
    name: str, raw: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=f"^environment variable {name} .*{expected}") as caught:
        Settings({name: raw}, {})
    assert f"({KNOWN[name].meaning})" in str(caught.value)
    with pytest.raises(ConfigError, match=f"^lab.toml: {IN_FILE[name]} .*{expected}"):
        Settings({}, {IN_FILE[name]: raw}, "lab.toml")


def test_an_unusable_value_is_shown() -> None:
    with pytest.raises(ConfigError, match="PZC_SER = 'yaml' cannot be used"):
        Settings({"PZC_SER": "yaml"}, {})


# --- keys --------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return str(path)


def test_without_key_there_is_no_keyring() -> None:
    assert Settings({}, {}).keyring() is None
    assert Settings({"PZC_KEY": ""}, {}).keyring() is None


def active(environ: dict[str, str], table: dict[str, Any] | None = None) -> str:
    ring = Settings(environ, table or {}).keyring()
    assert ring is not None
    return ring.active.secret.decode()


def test_a_key_comes_from_variable_file_or_settings_file(tmp_path: Path) -> None:
    key_file = write(tmp_path / "key", "a key from a file\n")
    assert active({"PZC_KEY": "a key from a variable"}) == "a key from a variable"
    assert active({"PZC_KEY_FILE": key_file}) == "a key from a file"
    assert active({}, {"key": "a key from the settings"}) == "a key from the settings"
    assert active({}, {"key_file": key_file}) == "a key from a file"


def test_a_key_file_of_the_environment_wins_over_a_key_in_the_settings_file(tmp_path: Path) -> None:
    key_file = write(tmp_path / "key", "a key from a file")
    assert active({"PZC_KEY_FILE": key_file}, {"key": "a key from the settings"}) == "a key from a file"
    assert active({"PZC_KEY_FILE": key_file, "PZC_KEY": "a key from a variable"}) == "a key from a variable"


def test_the_key_that_is_set_signs_and_those_of_the_keyring_are_accepted(tmp_path: Path) -> None:
    keyring = write(tmp_path / "ring", '[keys.alice]\nsecret = "one key of the lab"\nrole = "observer"')
    ring = Settings({"PZC_KEYRING": keyring, "PZC_KEY": "two keys of the lab"}, {}).keyring()
    assert ring is not None
    assert [key.secret for key in ring] == [b"one key of the lab", b"two keys of the lab"]
    assert ring.active.secret == b"two keys of the lab"


def test_a_key_that_is_also_in_the_keyring_has_the_keyring_s_name_and_role(tmp_path: Path) -> None:
    keyring = write(tmp_path / "ring", '[keys.alice]\nsecret = "one key of the lab"\nrole = "observer"')
    ring = Settings({"PZC_KEYRING": keyring, "PZC_KEY": "one key of the lab"}, {}).keyring()
    assert ring is not None
    assert len(ring) == 1
    assert (ring.active.name, ring.active.role) == ("alice", Role.OBSERVER)


def test_a_keyring_alone_is_used_as_it_is(tmp_path: Path) -> None:
    keyring = write(tmp_path / "ring", '[keys.alice]\nsecret = "one key of the lab"')
    assert active({"PZC_KEYRING": keyring}) == "one key of the lab"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "cannot be read: No such file"), (b" \n", "is empty"), (b"topsecret\xff", "is not UTF-8")],
)
def test_a_key_file_that_cannot_be_used_is_named(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(ConfigError, match=f"^PZC_KEY_FILE {path} {complaint}") as caught:
        Settings({"PZC_KEY_FILE": str(path)}, {}).keyring()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_key_that_is_not_utf8_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        Settings({"PZC_KEY": SECRET + os.fsdecode(b"\xff")}, {}).keyring()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_the_key_is_in_no_error_about_another_setting() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings({"PZC_KEY": SECRET, "PZC_TIMEOUT": "soon"}, {"key": SECRET})
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_settings_do_not_show_the_key() -> None:
    settings = Settings({"PZC_KEY": "topsecret, and long enough"}, {})
    assert SECRET not in repr(settings) + repr(settings.origin) + repr(settings.keyring())
    assert (
        active({"PZC_KEY": "topsecret, and long enough"}) == Key("topsecret, and long enough").secret.decode()
    )


# --- files -------------------------------------------------------------------------------------------


def test_the_settings_file_is_looked_for_in_three_places() -> None:
    assert config_files({"HOME": "/h"}) == [
        Path("pzc.toml"),
        Path("/h/.config/pzc/pzc.toml"),
        Path("/etc/pzc/pzc.toml"),
    ]
    assert config_files({"HOME": "/h", "XDG_CONFIG_HOME": "/x"})[1] == Path("/x/pzc/pzc.toml")
    assert config_files({"HOME": "/h", "PZC_CONFIG": "/c.toml"}) == [Path("/c.toml")]


def test_on_windows_the_settings_file_is_looked_for_in_the_folders_of_the_user_and_of_the_machine() -> None:
    environ = {"APPDATA": "/roaming", "PROGRAMDATA": "/machine", "HOME": "/h", "XDG_CONFIG_HOME": "/x"}
    places = [Path("pzc.toml"), Path("/roaming/pzc/pzc.toml"), Path("/machine/pzc/pzc.toml")]
    assert config_files(environ, windows=True) == places
    assert config_files({}, windows=True) == places[:1]


def test_the_first_settings_file_found_is_the_only_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, user = tmp_path / "here", tmp_path / "user" / "pzc"
    here.mkdir()
    user.mkdir(parents=True)
    write(user / "pzc.toml", "timeout = 7\nser = 'json'")
    monkeypatch.chdir(here)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "user")}
    assert load(environ)["PZC_TIMEOUT"] == 7
    write(here / "pzc.toml", "timeout = 8")
    settings = load(environ)
    assert (settings["PZC_TIMEOUT"], settings["PZC_SER"]) == (8, "pickle")
    assert settings.origin["PZC_TIMEOUT"] == "pzc.toml: timeout"


def test_without_argument_this_process_s_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PZC_TIMEOUT", "9")
    assert load()["PZC_TIMEOUT"] == 9


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "cannot be read: No such file"), (b"key", "is not TOML"), (b"key = '\xff'", "is not UTF-8")],
)
def test_a_settings_file_that_cannot_be_used_is_named(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    path = tmp_path / "lab.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^settings file {path} {complaint}"):
        load({"PZC_CONFIG": str(path)})


# --- limits ------------------------------------------------------------------------------------------


def test_limits_of_the_settings_file_hold_from_then_on(tmp_path: Path) -> None:
    with Timings(links=3):
        settings = load({"PZC_CONFIG": str(Timings(silence=0.2).write(tmp_path))})
        assert dict(settings.limits) == {"silence": 0.2}
        assert settings.complaints() == []
        assert (limits.current.silence, limits.current.links) == (0.2, 3)


def test_limits_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pzc.toml").write_text("limits = 4", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"\[limits\] is no table"):
        load({"PZC_CONFIG": str(tmp_path / "pzc.toml")})
    assert limits.current == limits.Limits()
