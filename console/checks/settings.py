"""Settings: every ``PZC_`` variable with its value and where that came from; never a secret."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PosixPath
from typing import Any, cast

from ...protocol.errors import ConfigError
from ...protocol.frames import PZC00
from ...protocol.keyring import Key, Keyring, check_private
from ...transport.endpoints import is_loopback
from ...transport.settings import KNOWN, Settings, config_files, load
from .finding import Finding, Subject, failed, ok, warning

SECRET = frozenset({"PZC_KEY"})
"""Settings whose values are never shown."""


def read_settings(environ: Mapping[str, str]) -> tuple[Settings, list[Finding]]:
    """The settings as far as they can be used, and a finding for each that cannot."""
    findings: list[Finding] = []
    usable = dict(environ)
    for name in KNOWN.keys() & environ.keys():
        try:
            Settings({name: environ[name]}, {})
        except ConfigError as exc:
            findings.append(failed(f"setting {name}", str(exc), f"correct or unset {name}"))
            del usable[name]
    try:
        return load(usable), findings
    except ConfigError as exc:
        findings.append(failed("settings file", str(exc), "correct the file, or name another: PZC_CONFIG"))
        return load({**usable, "PZC_CONFIG": os.devnull}), findings


def check_settings(subject: Subject) -> Iterator[Finding]:
    """Each setting with its origin, and each limit that the file changes."""
    settings = subject.settings
    for name in KNOWN:
        if name in subject.environ and settings.origin[name] == "default":
            continue  # it cannot be used, and that was told
        value = settings[name]
        shown = _shown(name, value)
        if name == "PZC_ACCEPT" and settings.origin[name] == "default":
            shown += "; with a key PZC01 alone"
        told = None if name in SECRET else _plain(value)
        yield ok(
            f"setting {name}", f"{shown} ({settings.origin[name]})", value=told, origin=settings.origin[name]
        )
    for name, value in settings.limits.items():
        yield ok(f"limit {name}", f"{value} (changed in the settings file)", value=value)


def check_misspelt(subject: Subject) -> Iterator[Finding]:
    """Variables and keys of the file that nobody reads."""
    complaints = subject.settings.complaints()
    for complaint in complaints:
        what, _, hint = complaint.partition(": ")
        yield warning("misspelt settings", what, hint)
    if not complaints:
        yield ok("misspelt settings", "every PZC_ variable and key of the settings file is known")


def check_settings_file(subject: Subject) -> Iterator[Finding]:
    """The settings file in use."""
    if str(subject.settings["PZC_CONFIG"]) == os.devnull != subject.environ.get("PZC_CONFIG"):
        return  # it cannot be used, and that was told
    places = config_files(subject.environ)
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        yield ok("settings file", f"none (looked for {', '.join(map(str, places))})")
    else:
        yield ok("settings file", str(found.absolute()))


def _shown(name: str, value: Any) -> str:
    if name in SECRET:
        return f"set, {len(value)} characters" if value else "not set"
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value))) or "not set"
    if name == "PZC_DISCOVERY_IP" and not value:
        return "off"
    return "not set" if value in (None, "") else str(value)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def check_key(subject: Subject) -> Iterator[Finding]:
    """What messages are signed with, and who may read it."""
    settings = subject.settings
    for name in ("PZC_KEY_FILE", "PZC_KEYRING"):
        if settings[name] is not None:
            yield from _file(name, settings[name])
    try:
        ring = settings.keyring()
        if ring is not None and settings["PZC_ACCEPT"] != (PZC00,):
            ring.check_lengths()
    except ConfigError as exc:
        yield failed("key", str(exc), "correct the file, or make a key: pzc keygen")
        return
    if ring is None:
        yield _unsigned(subject)
        return
    yield _active(ring, settings)
    if settings["PZC_KEYRING"] is not None:
        yield _roles(ring)


def _unsigned(subject: Subject) -> Finding:
    todo = "set one and the same PZC_KEY on every machine: export PZC_KEY=$(pzc keygen)"
    remote = [e for e in subject.targets.values() if "://" in e and not is_loopback(e)]
    if remote:
        text = (
            f"not set, and messages go to {', '.join(remote)}: anybody on the network can read and send them"
        )
        return warning("key", text, todo)
    return ok("key", f"not set: nothing is signed, which does for agents on loopback only; else {todo}")


def _active(ring: Keyring, settings: Settings) -> Finding:
    active, source = ring.active, _source(settings)
    told = {"key_id": active.key_id, "name": active.name, "role": active.role.name.lower(), "source": source}
    who = f"{active.name} ({active.role.name.lower()}), key id {active.key_id}"
    text = f"messages are signed by {who}, of {source}"
    return ok("key", text, **told)


def _source(settings: Settings) -> str:
    for name in ("PZC_KEY", "PZC_KEY_FILE", "PZC_KEYRING"):
        if settings[name]:
            return settings.origin[name]
    return "default"


def _roles(ring: Keyring) -> Finding:
    keys = [{"name": key.name, "role": key.role.name.lower(), "key_id": key.key_id} for key in ring]
    shown = ", ".join(f"{key['name']} {key['role']}" for key in keys)
    return ok("keyring", f"{len(keys)} keys: {shown}", keys=keys)


def _file(name: str, path: Path) -> Iterator[Finding]:
    check = f"file of {name}"
    try:
        status = path.stat()
    except OSError as exc:
        yield failed(check, f"{path}: {exc.strerror}", f"correct {name}, or make a key: pzc keygen > {path}")
        return
    mode, owner = status.st_mode & 0o777, status.st_uid
    if not isinstance(path, PosixPath):
        yield ok(check, f"{path}; who else may read it is not checked on Windows")
        return
    try:
        check_private(path, str(path))
    except ConfigError as exc:
        yield failed(check, str(exc), f"chmod 600 {path}", mode=f"{mode:o}")
        return
    if hasattr(os, "geteuid") and owner not in (os.geteuid(), 0):
        text = f"{path} belongs to user {owner}, who can change the key"
        yield warning(check, text, f"chown {os.geteuid()} {path}", owner=owner)
    else:
        yield ok(check, f"{path}, mode {mode:o}", mode=f"{mode:o}")


def key_name(ring: Keyring | None, key_id: str) -> str:
    """How a key is called here; its id when it is not known."""
    key: Key | None = ring.find(key_id) if ring is not None else None
    return key.name if key is not None else key_id
