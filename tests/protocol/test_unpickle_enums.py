from __future__ import annotations

import pickle

import pytest

from pzc.protocol.errors import DecodeError, SerializerRefused
from pzc.protocol.unpickle import restricted_loads
from pzc.protocol.unpickle_enums import Combinations

from tests.protocol import pickling
from tests.protocol.pickling import Mode, call, inner


@pytest.mark.parametrize("value", [3, 1 << 70, -1, "x", True])
def test_what_an_author_wrote_for_missing_members_does_not_run(value: object) -> None:
    with pytest.raises(DecodeError):
        restricted_loads(call(pickling.__name__, "Peculiar", value))
    assert not pickling.ran


@pytest.mark.parametrize("value", [1 << 64, -1, True, 1.0])
def test_a_combination_of_flags_is_a_number_of_64_bits(value: object) -> None:
    with pytest.raises(DecodeError):
        restricted_loads(call(pickling.__name__, "Register", value))


def test_a_flood_of_combinations_of_flags_ends() -> None:
    combinations = Combinations(1)
    first = combinations.of(pickling.Register, 1 << 20)
    with pytest.raises(DecodeError, match="more than 1 combinations"):
        combinations.of(pickling.Register, 1 << 21)
    assert combinations.of(pickling.Register, 1 << 20) is first


def test_the_state_of_an_enum_member_cannot_be_set() -> None:
    member = pickle.dumps(Mode.FAST, 4)
    with pytest.raises(SerializerRefused):
        restricted_loads(member[:-1] + inner({"_value_": 7}) + b"b.")
    assert Mode.FAST.value == 2
