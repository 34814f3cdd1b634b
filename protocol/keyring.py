"""Signing keys: a secret, what HKDF derives from it, a name and a role.

On the wire a key is known by its *key id*, eight hex digits derived from the secret, so that two
machines with the same ``PZC_KEY`` agree without further settings. A keyring gives keys names and
roles; name and role belong to the receiver's file, never to what a message claims.

Keyring file (TOML)::

    active = "alice"            # the key this side signs with; may be left out with one key
    publish = "everybody"       # the key its notifications are signed with, an observer's; else active
    call = "rack"               # the key it asks others with; else active

    [keys.alice]
    secret = "a long random text"
    role = "operator"           # observer | operator | admin; operator when left out
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path, PosixPath
from typing import Annotated, Any, cast

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from .errors import ConfigError
from .frames import Kind
from .toml import made, parsed, read_file

MIN_SECRET = 16
"""Bytes of a secret that cannot be guessed."""


class Role(enum.IntEnum):
    """What the holder of a key may do; each role includes the ones before it."""

    OBSERVER = 1
    """Read and subscribe."""
    OPERATOR = 2
    """Also set and call."""
    ADMIN = 3
    """Also instantiate and stop."""


class _Nobody(enum.IntEnum):
    """Of the key that is this side's own, in the hands of somebody else."""

    NOBODY = 0


class _KeyTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    secret: Annotated[str, msgspec.Meta(min_length=1)]
    role: str = "operator"


class _RingTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keys: Annotated[dict[str, Any], msgspec.Meta(min_length=1)]
    active: str | None = None
    publish: str | None = None
    call: str | None = None


class Key:
    """One shared secret.

    Args:
        secret: what both sides know; any non-empty text or bytes.
        name: the proven identity shown in logs; default the key id.
        role: what its holder may do, default admin.

    Attributes:
        trusted: True when a pickle that it signed may be unpickled in full.

    Raises:
        ConfigError: for an empty secret, or one that is not UTF-8; for something else, and for no role.
    """

    def __init__(self, secret: str | bytes, name: str = "", role: Role = Role.ADMIN) -> None:
        if not isinstance(cast("object", secret), str | bytes):
            raise ConfigError(f"a signing key is a text or bytes, not of type {type(secret).__name__}")
        try:
            self.secret = secret.encode() if isinstance(secret, str) else secret
        except UnicodeEncodeError:
            raise ConfigError("a signing key is not UTF-8") from None  # that error carries the secret
        if not self.secret:
            raise ConfigError("a signing key may not be empty")
        if not isinstance(cast("object", role), Role | _Nobody):
            raise ConfigError(f"role={role!r:.40} cannot be used: expected Role.OBSERVER, OPERATOR or ADMIN")
        self.role = role
        self.trusted = role >= Role.OPERATOR
        self.key_id = self._derive(b"key id", length=4).hex()
        self.name = name or self.key_id
        self.aead = lru_cache(1024)(self._aead)

    def __repr__(self) -> str:
        return f"<Key {self.name} {self.key_id} {self.role.name.lower()}>"

    def __reduce__(self) -> tuple[type[Key], tuple[bytes, str, Role]]:
        refuse_to_travel("a key", self)
        return Key, (self.secret, self.name, self.role)

    def _derive(self, purpose: bytes, length: int = 32) -> bytes:
        hkdf = HKDF(algorithm=hashes.SHA256(), length=length, salt=b"PZC01", info=purpose)
        return hkdf.derive(self.secret)

    @cached_property
    def hmac_key(self) -> bytes:
        """32 bytes for HMAC-SHA256."""
        return self._derive(b"hmac-sha256")

    @cached_property
    def discovery_key(self) -> bytes:
        """32 bytes for HMAC-SHA256 of what is said in discovery."""
        return self._derive(b"discovery")

    def _aead(self, sender: str, epoch: int) -> AESGCM:
        """AES-GCM of one sender and epoch: no two senders share a nonce space."""
        return AESGCM(self._derive(b"aes256-gcm %d %s" % (epoch, sender.encode())))


class Keyring:
    """Keys by key id, and the one this side signs with.

    Args:
        keys: all keys that are accepted.
        active: the key to sign with; default the only one.
        publishing: the key to sign notifications with, which readers have to hold; default the active one.
        calling: the key to sign requests with; default the active one.

    Attributes:
        trusted: ids of the keys of role operator or above.
        others_own: the active key as others have it, to verify what this side says: it lets nobody ask here.
            None when it is the only key.

    Raises:
        ConfigError: without keys, with two keys of one id, or with a publishing key that lets readers call.
    """

    def __init__(
        self,
        keys: Iterable[Key],
        active: Key | None = None,
        publishing: Key | None = None,
        calling: Key | None = None,
    ) -> None:
        self._keys: dict[str, Key] = {}
        for key in keys:
            if not isinstance(cast("object", key), Key):
                raise ConfigError(f"<{type(key).__name__}> is no key: expected pzc.Key(...)")
            other = self._keys.setdefault(key.key_id, key)
            if other is not key:
                raise ConfigError(
                    f"keys {other.name} and {key.name} have one key id: their secrets are equal"
                )
        if active is None:
            if len(self._keys) != 1:
                raise ConfigError(f"a keyring of {len(self._keys)} keys must say which one is active")
            active = next(iter(self._keys.values()))
        self.active = self._keys.setdefault(active.key_id, active)
        if publishing is not None and publishing.role > Role.OBSERVER:
            raise ConfigError(
                f"the key {publishing.name} for publishing has the role {publishing.role.name.lower()}: "
                "every reader has to hold it, so it may be an observer's only"
            )
        publishing, calling = publishing or active, calling or active
        self.publishing = self._keys.setdefault(publishing.key_id, publishing)
        self.calling = self._keys.setdefault(calling.key_id, calling)
        self.others_own: Key | None = None
        if len(self._keys) > 1:
            self.others_own = Key(self.active.secret, self.active.name, cast("Role", _Nobody.NOBODY))
        self.trusted = frozenset(key_id for key_id, key in self._keys.items() if key.trusted)

    def __getstate__(self) -> dict[str, Any]:
        refuse_to_travel("a keyring", self)
        return self.__dict__

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str) -> Key | None:
        """The key of that id, or None."""
        return self._keys.get(key_id)

    def signer(self, kind: Kind) -> Key:
        """The key that this side signs a message of a kind with, unless it knows whom it answers."""
        return {Kind.REQUEST: self.calling, Kind.REPLY: self.active, Kind.NOTIFICATION: self.publishing}[kind]

    def of_asker(self, key: Key) -> Key:
        """A key as that of somebody who asks here."""
        return self.others_own if self.others_own is not None and key is self.active else key

    def check_lengths(self) -> None:
        """Judge whether every secret is long enough not to be guessed.

        Raises:
            ConfigError: says how to make one.
        """
        for key in self:
            if len(key.secret) < MIN_SECRET:
                raise ConfigError(
                    f"the key {key.name} has {len(key.secret)} bytes and could be guessed; it takes "
                    f"{MIN_SECRET}: make one with pzc keygen. Only where PZC00 alone is accepted, among "
                    "originals, may it be shorter"
                )

    @classmethod
    def from_key(cls, secret: str | bytes, role: Role = Role.ADMIN) -> Keyring:
        """A keyring of one key, as ``PZC_KEY`` gives it."""
        return cls([Key(secret, role=role)])

    @classmethod
    def load(cls, path: str | Path) -> Keyring:
        """Read a keyring file.

        Raises:
            ConfigError: when it cannot be read, others can read it, or it is no keyring.
        """
        return cls.parse(read_private(Path(path), f"keyring {path}"), where=str(path))

    @classmethod
    def parse(cls, toml: str, where: str = "keyring") -> Keyring:
        """Read a keyring from TOML text; ``where`` names it in errors.

        Raises:
            ConfigError: as `load`.
        """
        table, keys = made(_RingTable, parsed(toml, where), where), dict[str, Key]()
        for name, entry in table.keys.items():
            told = made(_KeyTable, entry, f"{where}: [keys.{name}]")
            role = Role.__members__.get(told.role.upper())
            if role is None:
                raise ConfigError(
                    f"{where}: keys.{name} has role {told.role!r}, expected observer, operator or admin"
                )
            keys[name] = Key(told.secret, name, role)
        chosen = {"active": table.active, "publish": table.publish, "call": table.call}
        for use, name in chosen.items():
            if name is not None and name not in keys:
                raise ConfigError(f"{where}: {use} = {name!r} is none of its keys: {', '.join(keys)}")
        try:
            return cls(keys.values(), *(keys.get(name or "") for name in chosen.values()))
        except ConfigError as exc:
            raise ConfigError(f"{where}: {exc}") from exc


def refuse_to_travel(what: str, holder: object) -> None:
    """Judge whether something that holds a secret may be pickled: only for a child of this process.

    Raises:
        TypeError: anywhere else, where the secret would travel or be stored in clear.
    """
    spawning = sys.modules.get("multiprocessing.context")  # which a process that starts children has loaded
    if spawning is None or spawning.get_spawning_popen() is None:
        raise TypeError(
            f"{what} ({type(holder).__name__}) holds a secret, so it is not pickled, copied or sent: "
            "give the other side its own PZC_KEY, PZC_KEY_FILE or PZC_KEYRING"
        )


def read_private(path: Path, where: str) -> str:
    """The text of a file with a secret; ``where`` names it in errors.

    Raises:
        ConfigError: when it cannot be read, or group or others may touch it.
    """
    text = read_file(path, where)
    check_private(path, where)
    return text


def check_private(path: Path, where: str) -> None:
    """Refuse a file with a secret that group or others may touch; ``where`` names it in the error.

    Raises:
        ConfigError: when they may.
        OSError: when there is no such file.
    """
    mode = path.stat().st_mode & 0o777
    if mode & 0o077 and isinstance(path, PosixPath):
        raise ConfigError(f"{where} has mode {mode:o}, so others may use the key: chmod 600 {path}")
