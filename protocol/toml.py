"""TOML files that people write, as structs: an error names file, table and key, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import msgspec

from .errors import ConfigError
from .shown import hint

Table = TypeVar("Table", bound=msgspec.Struct)


def read_file(path: Path, where: str) -> str:
    """The text of a file; ``where`` names it in errors.

    Raises:
        ConfigError: when it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin with a mark
    except OSError as exc:
        raise ConfigError(f"{where} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError:
        # Not chained: that error carries the file's content, which may be a secret.
        raise ConfigError(f"{where} is not UTF-8") from None


def parsed(text: str, where: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises:
        ConfigError: when it is not TOML.
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"{where} is not TOML: {exc}") from exc


def made(
    kind: type[Table], table: object, where: str, base: Table | None = None, gone: Mapping[str, str] = {}
) -> Table:
    """A struct out of a table, whose values no error shows.

    Args:
        kind: its class.
        table: that was read.
        where: where it stands, for errors.
        base: has the values that the table does not name; default those of the class.
        gone: names that once were known, with what to do instead.

    Raises:
        ConfigError: for what is no table, for an unknown name, with the nearest one, or for a wrong value.
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} is no table")
    given = cast("Mapping[str, Any]", table)
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for name in given:
        if name in gone:
            raise ConfigError(f"{where}: {name} {gone[name]}")
        if name not in fields:
            raise ConfigError(f"{where}: {name} is not known; {hint(name, fields)}")
    try:
        return msgspec.convert({**({} if base is None else msgspec.structs.asdict(base)), **given}, kind)
    except msgspec.ValidationError as exc:
        told, _, place = str(exc).partition(" - at `$.")
        known = get_args(fields.get(key := place[:-1]))
        near = f"; {hint(given[key], known)}" if told.startswith("Invalid enum value") and known else ""
        raise ConfigError(f"{where}: {told}{place and f' for `{place}'}{near}") from None
