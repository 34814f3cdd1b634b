"""``pzc keygen``: one key, an entry of a keyring, or the keyrings of a whole lab."""

from __future__ import annotations

import argparse
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..protocol.keyring import Key, Role
from .options import Commands, add_command, add_json
from .output import write, write_json, write_new
from .targets import UsageError

SECRET_BYTES = 32
"""Entropy of a generated key; printed as twice as many hex digits."""


SERVER, RACK, EVERYBODY = "server", "rack", "everybody"
"""Keys of a lab beside those of its people: for what servers announce, for what their machines ask, and for
notifications."""

PAGE = "READ-ME.txt"
"""File that tells what goes where."""


class _Entry(NamedTuple):
    name: str
    secret: str
    role: str

    def __str__(self) -> str:
        return f'[keys.{_toml_key(self.name)}]\nsecret = "{self.secret}"\nrole = "{self.role}"'


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    keygen = add_command(
        commands, "keygen", run_keygen, "print a new signing key, or write the keyrings of a lab",
        "export PZC_KEY=$(pzc keygen)\n"
        "  pzc keygen --keyring alice --role operator >> keyring.toml\n"
        "  pzc keygen --lab keys --operators alice,bob --observers wall",
    )  # fmt: skip
    keygen.add_argument(
        "--lab", type=Path, metavar="DIR", help="write a keyring for the servers and one for each person here"
    )
    keygen.add_argument("--operators", default="", metavar="A,B", help="with --lab: who may set and call")
    keygen.add_argument("--observers", default="", metavar="A,B", help="with --lab: who may read only")
    keygen.add_argument("--keyring", metavar="NAME", help="print a keyring entry for a key of this name")
    roles = [role.name.lower() for role in Role]
    keygen.add_argument(
        "--role",
        choices=roles,
        metavar="ROLE",
        help=f"of the keyring entry, {', '.join(roles)}; default operator",
    )
    add_json(keygen)


def run_keygen(args: argparse.Namespace) -> int:
    """``pzc keygen``."""
    if args.lab is not None:
        return _write_lab(args)
    if args.operators or args.observers:
        raise UsageError("--operators and --observers need --lab DIR")
    if args.role and args.keyring is None:
        raise UsageError("a role needs --keyring NAME: PZC_KEY itself has none")
    if args.keyring is not None and not (args.keyring and args.keyring.isprintable()):
        raise UsageError(f"{args.keyring!r} cannot be the name of a key")
    secret, role = secrets.token_hex(SECRET_BYTES), args.role or "operator"
    if args.json:
        named = {} if args.keyring is None else {"name": args.keyring, "role": role}
        write_json({**named, "secret": secret, "key_id": Key(secret).key_id})
    elif args.keyring is None:
        write(secret)
    else:
        write(str(_Entry(args.keyring, secret, role)))
    return 0


def _write_lab(args: argparse.Namespace) -> int:
    if args.role or args.keyring is not None:
        raise UsageError("either --lab or --keyring")
    people = dict.fromkeys(_people(args.operators), "operator")
    for name in _people(args.observers):
        if people.setdefault(name, "observer") != "observer":
            raise UsageError(f"{name} is either an operator or an observer")
    if not people:
        raise UsageError("--lab needs --operators, --observers, or both, such as --operators alice,bob")
    files = _keyrings(people)
    if present := [name for name in files if (args.lab / name).exists()]:
        raise FileExistsError(f"{args.lab / present[0]} is there already: give another folder, or remove it")
    args.lab.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = list[Path]()
    try:
        for name, text in files.items():
            write_new(args.lab / name, text, 0o600)
            made.append(args.lab / name)
    except BaseException:  # they belong together
        for path in made:
            path.unlink(missing_ok=True)
        raise
    for path in made:
        if args.json:
            write_json({"file": str(path)})
        else:
            write(str(path))
    return 0


def _people(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if not re.fullmatch(r"\w[\w.@-]*", name) or name in (SERVER, RACK, EVERYBODY):
            raise UsageError(
                f"{name!r} cannot be the name of a person: letters, digits, '.', '@', '_' and '-'"
            )
    return names


def _keyrings(people: Mapping[str, str]) -> dict[str, str]:
    """The content of each file."""
    roles = {SERVER: "admin", RACK: "admin", EVERYBODY: "observer", **people}
    keys = {name: _Entry(name, secrets.token_hex(SECRET_BYTES), role) for name, role in roles.items()}
    signing = f'publish = "{EVERYBODY}"\n'
    entries = "\n".join(map(str, keys.values()))
    files = {f"{SERVER}.keyring": f'active = "{SERVER}"\ncall = "{RACK}"\n{signing}\n{entries}\n'}
    for name in people:
        held = [keys[name], keys[SERVER]._replace(role="operator"), keys[EVERYBODY]]
        files[f"{name}.keyring"] = f'active = "{name}"\n{signing}\n' + "\n".join(map(str, held)) + "\n"
    return {**files, PAGE: _page(people)}


def _page(people: Mapping[str, str]) -> str:
    wide, first = max(map(len, (SERVER, *people))), next(iter(people))
    told = "\n".join(f"{name + '.keyring':<{wide + 8}}  {name}, {role}" for name, role in people.items())
    return f"""\
What goes where. Copy each file over something that is encrypted, such as scp, then remove this folder.

{SERVER + ".keyring":<{wide + 8}}  every machine with instruments; whoever can read it may do everything
{told}

Wherever a file is, only its user may read it (chmod 600), and programs are told of it by

    export PZC_KEYRING=/path/to/{first}.keyring

or, for a lab, in lab.toml: [lab] keyring = "{SERVER}.keyring"
"""


def _toml_key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
