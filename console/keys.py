"""``pzc keygen``."""

from __future__ import annotations

import argparse
import json
import re
import secrets

from ..protocol.keyring import Key, Role
from .options import Commands, add_command, add_json
from .output import write, write_json
from .targets import UsageError

SECRET_BYTES = 32
"""Entropy of a generated key; printed as twice as many hex digits."""


def add_commands(commands: Commands) -> None:
    """Add the commands of this module."""
    keygen = add_command(
        commands, "keygen", run_keygen, "print a new signing key", "export PZC_KEY=$(pzc keygen)\n"
        "  pzc keygen --keyring alice --role operator >> keyring.toml",
    )  # fmt: skip
    keygen.add_argument("--keyring", metavar="NAME", help="print a keyring entry for a key of this name")
    roles = [role.name.lower() for role in Role]
    keygen.add_argument("--role", choices=roles, help="of the keyring entry; default operator")
    add_json(keygen)


def run_keygen(args: argparse.Namespace) -> int:
    """``pzc keygen``."""
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
        write(f'[keys.{_toml_key(args.keyring)}]\nsecret = "{secret}"\nrole = "{role}"')
    return 0


def _toml_key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
