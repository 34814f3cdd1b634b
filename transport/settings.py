"""Settings: argument > environment > file > default, and where each value came from.

The file is ``pzc.toml``: the one named by ``PZC_CONFIG``, else the first found in the working
directory, ``$XDG_CONFIG_HOME/pzc`` (default ``~/.config/pzc``) and ``/etc/pzc``; on Windows in the working
directory, ``%APPDATA%/pzc`` and ``%PROGRAMDATA%/pzc``. One that was found, not named, must belong to this
user or root; that of the working directory, which may have come with somebody else's files, gives nothing of
`NAMED_ONLY`. Its keys are the variables' names in lower case without the prefix (``ser = "json"``); its table
``limits`` has the names of `Limits`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path, PosixPath
from typing import Any, NamedTuple, cast

from ..discovery import names, site
from ..protocol import limits, serializers
from ..protocol.errors import ConfigError, PzcError
from ..protocol.frames import DIALECTS
from ..protocol.keyring import Key, Keyring, check_private, read_private, refuse_to_travel
from ..protocol.shown import hint
from ..protocol.toml import parsed, read_file

logger = logging.getLogger("pzc.settings")

TRANSPORTS = ("auto", "inproc", "unix", "tcp")
"""How a call, or a notification, may travel; ``auto`` takes the first of the others that works."""


def _flag(value: str) -> bool:
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("expected 1 or 0")


def _seconds(value: str) -> float:
    with suppress(ValueError):
        if 0 < (seconds := float(value)) < 1e7:
            return seconds
    raise ValueError("expected a positive number of seconds below 10 000 000")


def _path(value: str) -> Path:
    if not value:
        raise ValueError("expected the path of a file")
    return Path(value)


def _transport(value: str) -> str:
    if value not in TRANSPORTS:
        raise ValueError(f"expected one of {', '.join(TRANSPORTS)}")
    return value


def _dialects(value: str) -> tuple[str, ...]:
    items = tuple(item.strip() for item in value.split(",") if item.strip())
    if not items or not set(items) <= set(DIALECTS):
        raise ValueError(f"expected a comma-separated list out of {', '.join(DIALECTS)}")
    return items


def _serializer(value: str) -> str:
    serializers.validate(value)
    return value


def _namespace(value: str) -> str:
    return names.check_name(value) if value else ""


class _Setting(NamedTuple):
    parse: Callable[[str], Any]
    default: Any
    meaning: str


KNOWN: dict[str, _Setting] = {
    "PZC_KEY": _Setting(str, "", "signing key shared by the machines of a lab"),
    "PZC_KEY_FILE": _Setting(_path, None, "file that holds the signing key"),
    "PZC_KEYRING": _Setting(_path, None, "keyring file with named keys and roles"),
    "PZC_SER": _Setting(_serializer, "pickle", "serializer of what this side sends"),
    "PZC_ACCEPT": _Setting(_dialects, DIALECTS, "accepted dialects; with a key PZC01 alone unless said"),
    "PZC_SEAL": _Setting(_flag, False, "1 encrypts contents as well (AES-256-GCM)"),
    "PZC_TIMEOUT": _Setting(_seconds, 30.0, "timeout of a call in seconds"),
    "PZC_TRANSPORT": _Setting(_transport, "auto", "how calls and notifications travel"),
    "PZC_SINGLE_PORT": _Setting(_flag, False, "1 opens no port but that of the REP endpoint"),
    "PZC_PEERS": _Setting(str, "", "static peers: name=endpoint, separated by commas"),
    "PZC_PARTITION": _Setting(names.check_partition, "", "agents of other partitions are not found by name"),
    "PZC_NAMESPACE": _Setting(_namespace, "", "what stands before every name here"),
    "PZC_IP": _Setting(site.address, None, "address of the one interface that discovery uses"),
    "PZC_DISCOVERY_IP": _Setting(site.group, site.GROUP, "multicast group of discovery, or off"),
    "PZC_DISCOVERY_PORT": _Setting(site.port, site.PORT, "UDP port of discovery"),
    "PZC_RELAY": _Setting(site.relays, (), "hosts that are told of this one by unicast"),
    "PZC_REGISTRY": _Setting(site.registry, "", "endpoint of a registry"),
    "PZC_HIDE_TRACEBACK": _Setting(_flag, False, "1 leaves remote tracebacks out of error notes"),
    "PZC_CONFIG": _Setting(_path, None, "settings file"),
}
"""Every variable that is read, its default and its meaning."""

NAMED_ONLY = frozenset(
    {"PZC_KEY", "PZC_KEY_FILE", "PZC_KEYRING", "PZC_ACCEPT", "PZC_PEERS", "PZC_REGISTRY", "PZC_RELAY"}
)
"""Settings that say who is believed or connected to."""

RESERVED = frozenset({"PZC_COMPILED"})
"""Names that the process as a whole or other parts of a deployment read; they are no misspellings."""

_WITHOUT_EFFECT = {
    "PZC_CURVE_DIR": "CURVE is not used: set PZC_SEAL=1 and a key to encrypt",
    "PZC_SUITE": "all messages are signed with HMAC-SHA256; set PZC_SEAL=1 to encrypt them with AES-256-GCM",
    "PZC_TOPICS": "give the defaults of a topic to Agent.advertise and Agent.subscribe",
}


LIMITS = "limits"
"""Table of the file with times and limits, by the names of `Limits`."""


class Settings:
    """Values with their origin.

    Args:
        environ: environment variables.
        table: contents of the settings file, keys as in the file.
        table_name: how the file is called in messages.

    Attributes:
        origin: where each value comes from.
        limits: times and limits that the file changes, by name.

    Raises:
        ConfigError: for a value that cannot be used; says where it stands and what was expected.
    """

    def __init__(
        self, environ: Mapping[str, str], table: Mapping[str, Any], table_name: str = "pzc.toml"
    ) -> None:
        self._values = {name: setting.default for name, setting in KNOWN.items()}
        self.origin = dict.fromkeys(KNOWN, "default")
        self._complaints: list[str] = []
        if environ.get("PZC_SUITE", table.get("suite")) == "aes256-gcm":  # else contents would go in clear
            raise ConfigError("PZC_SUITE=aes256-gcm does not encrypt any more: set PZC_SEAL=1 instead")
        for name, raw in environ.items():
            if name in KNOWN:
                self._take(name, raw, f"environment variable {name}")
            elif name.startswith("PZC_") and name not in RESERVED:
                why = _no_effect(name, name, KNOWN.keys() | RESERVED)
                self._complaints.append(f"environment variable {name} {why}")
        in_file = {name.removeprefix("PZC_").lower(): name for name in KNOWN}
        for key, raw in table.items():
            name = in_file.get(key, "")
            if name and name not in environ:
                self._take(name, raw, f"{table_name}: {key}")
            elif not name and key != LIMITS:
                word = key.lower().removeprefix("pzc_")
                why = _no_effect(f"PZC_{word.upper()}", word, [*in_file, LIMITS])
                self._complaints.append(f"{table_name}: {key} {why}")
        self.limits: Mapping[str, float] = table.get(LIMITS, {})
        limits.changed(limits.Limits(), self.limits, f"{table_name}: [{LIMITS}]")

    def _take(self, name: str, raw: object, where: str) -> None:
        setting = KNOWN[name]
        try:
            self._values[name] = setting.parse(_as_text(raw))
        except (ValueError, PzcError) as exc:
            shown = "" if "KEY" in name else f" = {raw!r}"
            raise ConfigError(f"{where}{shown} cannot be used: {exc} ({setting.meaning})") from exc
        self.origin[name] = where

    def __getstate__(self) -> dict[str, Any]:
        refuse_to_travel("the settings", self)
        return self.__dict__

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def complaints(self) -> list[str]:
        """One sentence per unknown variable or key of the file, with the name that was probably meant."""
        return self._complaints

    def keyring(self) -> Keyring | None:
        """The keys that the settings name, or None.

        Raises:
            ConfigError: when a file cannot be read, or others can read it.
        """
        ring = Keyring.load(self["PZC_KEYRING"]) if self["PZC_KEYRING"] else None
        given = [name for name in ("PZC_KEY", "PZC_KEY_FILE") if self[name]]
        if not given:
            return ring
        given.sort(key=lambda name: not self.origin[name].startswith("environment"))
        key = Key(self["PZC_KEY"] if given[0] == "PZC_KEY" else _read_secret(self["PZC_KEY_FILE"]))
        if ring is None:
            return Keyring([key])
        publishing = None if ring.publishing is ring.active else ring.publishing
        return Keyring(ring if ring.find(key.key_id) else [*ring, key], key, publishing)


def _no_effect(variable: str, word: str, known: Collection[str]) -> str:
    """Why a word that is none of those that are known does nothing."""
    if variable in _WITHOUT_EFFECT:
        return f"has no effect: {_WITHOUT_EFFECT[variable]}"
    if variable in RESERVED:
        return f"has no effect: set {variable} in the environment"
    return f"is not known and has no effect: {hint(word, known)}"


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value)):
        return ",".join(cast("list[str]", value))
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ValueError("expected text, a number, true, false or a list of texts")


def _read_secret(path: Path) -> str:
    secret = read_private(path, f"PZC_KEY_FILE {path}").strip()
    if not secret:
        raise ConfigError(f"PZC_KEY_FILE {path} is empty")
    return secret


def config_files(environ: Mapping[str, str], windows: bool = os.name == "nt") -> list[Path]:
    """Where the settings file is looked for, first hit wins."""
    if environ.get("PZC_CONFIG"):
        return [Path(environ["PZC_CONFIG"])]
    if windows:
        folders = [environ[name] for name in ("APPDATA", "PROGRAMDATA") if environ.get(name)]
    else:
        folders = [
            environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/"), ".config"),
            "/etc",
        ]
    return [Path("pzc.toml"), *(Path(folder, "pzc", "pzc.toml") for folder in folders)]


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of this process; logs a warning for each unknown ``PZC_`` variable.

    Times and limits that the file names hold in this process from now on.

    Raises:
        ConfigError: for a value or file that cannot be used.
    """
    environ = os.environ if environ is None else environ
    named = bool(environ.get("PZC_CONFIG"))
    path = next((each for each in config_files(environ) if named or os.path.isfile(each)), None)
    table: Mapping[str, Any] = {} if path is None else _read_toml(path, named)
    settings = Settings(environ, table, str(path or "pzc.toml"))
    if settings.limits:
        limits.use(limits.changed(limits.current, settings.limits, str(path)))
    for complaint in settings.complaints():
        logger.warning("%s", complaint)
    return settings


def _read_toml(path: Path, named: bool) -> Mapping[str, Any]:
    where = f"settings file {path}"
    if not named:
        _check_owner(path)
    table = parsed(read_file(path, where), where)
    if table.get("key"):
        check_private(path, where)
    if not (named or path.is_absolute()):
        _check_working_directory(path, table)
    return table


def _check_owner(path: Path) -> None:
    """Refuse a file that nobody named when another user can change it."""
    if not isinstance(path, PosixPath):
        return
    where, about = f"settings file {path.absolute()}", path.stat()
    others = {about.st_uid, path.lstat().st_uid} - {os.geteuid(), 0}  # a link has an owner of its own
    if others:
        raise ConfigError(
            f"{where} belongs to user {min(others)}, and only this user's and root's are read: "
            f"remove it, or trust it with PZC_CONFIG={path.absolute()}"
        )
    if about.st_mode & 0o022:
        raise ConfigError(
            f"{where} has mode {about.st_mode & 0o777:o}, so others may change it: chmod go-w {path}"
        )


def _check_working_directory(path: Path, table: Mapping[str, Any]) -> None:
    """Refuse settings that may have come with somebody else's files and say who is believed."""
    for key in table:
        if f"PZC_{key.upper()}" in NAMED_ONLY:
            raise ConfigError(
                f"settings file {path.absolute()}: {key} is not taken from a working directory: name it "
                f"with PZC_CONFIG={path.absolute()}, or move {key} to ~/.config/pzc/pzc.toml"
            )
