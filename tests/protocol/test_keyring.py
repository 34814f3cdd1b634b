from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pzc.protocol.errors import ConfigError
from pzc.protocol.keyring import Key, Keyring, Role

SECRET = "a long random text"
TWO = """
active = "alice"
[keys.alice]
secret = "one"
[keys.bob]
secret = "two"
role = "admin"
"""


def hkdf(secret: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 with SHA-256 and the salt ``PZC01``, for outputs of one block."""
    extracted = hmac.digest(b"PZC01", secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\1", hashlib.sha256)[:length]


def test_a_key_id_depends_on_the_secret_alone() -> None:
    assert Key(SECRET).key_id == Key(SECRET, "alice", Role.OBSERVER).key_id == Key(SECRET.encode()).key_id
    assert Key(SECRET).key_id == hkdf(SECRET.encode(), b"key id", 4).hex()
    assert Key(SECRET).key_id != Key(SECRET + "!").key_id


def test_keys_are_derived_per_purpose_sender_and_epoch() -> None:
    key = Key(SECRET)
    assert key.hmac_key == hkdf(key.secret, b"hmac-sha256", 32)
    nonce = b"n" * 12
    assert key.aead("ab", 7).encrypt(nonce, b"x", b"") == AESGCM(
        hkdf(key.secret, b"aes256-gcm 7 ab", 32)
    ).encrypt(nonce, b"x", b"")


def test_a_key_without_name_is_called_by_its_id() -> None:
    assert Key(SECRET).name == Key(SECRET).key_id
    assert Key(SECRET).role is Role.ADMIN


@pytest.mark.parametrize("secret", ["", b""])
def test_an_empty_key_is_refused(secret: str | bytes) -> None:
    with pytest.raises(ConfigError, match="empty"):
        Key(secret)


def test_a_key_that_is_not_utf8_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        Key("topsecret\udcff")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert "topsecret" not in str(caught.value)


def test_a_key_does_not_show_its_secret() -> None:
    assert SECRET not in repr(Key(SECRET, "alice", Role.OPERATOR))
    assert repr(Key(SECRET, "alice", Role.OPERATOR)) == f"<Key alice {Key(SECRET).key_id} operator>"


def test_roles_include_the_ones_before() -> None:
    assert Role.OBSERVER < Role.OPERATOR < Role.ADMIN


def test_a_keyring_finds_keys_by_id_and_signs_with_the_active_one() -> None:
    ring = Keyring.parse(TWO)
    assert len(ring) == 2
    assert ring.active.name == "alice"
    assert ring.find(Key("two").key_id) is list(ring)[1]
    assert ring.find("00000000") is None
    assert ring.find("") is None


def test_the_only_key_is_the_active_one() -> None:
    assert Keyring.parse('[keys.alice]\nsecret = "x"').active.name == "alice"
    assert Keyring.from_key("x", Role.OBSERVER).active.role is Role.OBSERVER


def test_the_active_key_belongs_to_the_keyring() -> None:
    one, two = Key("one"), Key("two")
    assert two in list(Keyring([one], two))


@pytest.mark.parametrize("keys", [[], [Key("one"), Key("two")]])
def test_a_keyring_without_active_key_is_refused(keys: list[Key]) -> None:
    with pytest.raises(ConfigError, match="must say which one is active"):
        Keyring(keys)


def test_two_keys_of_one_secret_are_refused() -> None:
    keys = [Key("one", "alice", Role.OBSERVER), Key("one", "bob")]
    with pytest.raises(ConfigError, match="alice and bob have one key id"):
        Keyring(keys, keys[0])


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ("", "missing required field `keys`"),
        ("keys = 3", "Expected `object`, got `int` for `keys`"),
        ("[keys]", "length >= 1 for `keys`"),
        ("[keys", "is not TOML"),
        ("[keys]\nalice = 3", r"\[keys.alice\] is no table"),
        ("[keys.alice]", r"\[keys.alice\]: .*missing required field `secret`"),
        ('[keys.alice]\nsecret = ""', r"\[keys.alice\]: .*length >= 1 for `secret`"),
        ("[keys.alice]\nsecret = 12", r"\[keys.alice\]: Expected `str`, got `int` for `secret`"),
        (
            '[keys.alice]\nsecret = "x"\nrole = "boss"',
            "has role 'boss', expected observer, operator or admin",
        ),
        ('[keys.alice]\nsecret = "x"\nrole = 3', r"\[keys.alice\]: Expected `str`, got `int` for `role`"),
        ('[keys.alice]\nsecret = "x"\nrol = "observer"', "rol is not known; did you mean role"),
        ('activ = "alice"\n[keys.alice]\nsecret = "x"', "activ is not known; did you mean active"),
        ('active = "bob"\n[keys.alice]\nsecret = "x"', "'bob' is none of its keys: alice"),
        ('active = ["alice"]\n[keys.alice]\nsecret = "x"', "Expected `str . null`, got `array` for `active`"),
        ('[keys.a]\nsecret = "x"\n[keys.b]\nsecret = "y"', ": a keyring of 2 keys must say which"),
        ('active = "a"\n[keys.a]\nsecret = "x"\n[keys.b]\nsecret = "x"', ": keys a and b have one key id"),
    ],
)
def test_a_bad_keyring_names_file_and_entry(toml: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=f"^keys.toml.*{complaint}"):
        Keyring.parse(toml, where="keys.toml")


@pytest.mark.parametrize("entry", ['role = "boss"', "role = 3", 'rol = "observer"', "role"])
def test_a_bad_keyring_does_not_show_its_secrets(entry: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Keyring.parse(f'[keys.alice]\nsecret = "topsecret"\n{entry}')
    assert "topsecret" not in str(caught.value)


def test_roles_are_read_in_any_case() -> None:
    assert Keyring.parse('[keys.a]\nsecret = "x"\nrole = "Observer"').active.role is Role.OBSERVER


def test_a_keyring_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keyring.toml"
    path.write_text('[keys.zoé]\nsecret = "clé"'.replace("zoé", '"zoé"'), encoding="utf-8")
    path.chmod(0o600)
    assert Keyring.load(path).active.secret == "clé".encode()
    assert Keyring.load(str(path)).active.name == "zoé"


def test_a_keyring_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: No such file"):
        Keyring.load(tmp_path / "nowhere.toml")


def test_a_keyring_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "keyring.toml"
    path.write_bytes(b'[keys.a]\nsecret = "\xff"')
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"keyring\.toml is not UTF-8"):
        Keyring.load(path)
