from __future__ import annotations

import pytest

from pzc.agents.references import Reference, reference, replaced
from pzc.protocol import serializers
from pzc.protocol.errors import DecodeError
from pzc.protocol.paths import Handle, Path

PATHS: list[Path] = [
    (), ("ch1",), ("channels", (0,), "off"), ("channels", (None, 2, None)), ("limits", ("low",)),
    (Handle("1f3a"), "voltage"),
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("serializer", "trusted"),
    [
        ("pickle", True),
        ("pickle2", True),
        *((name, trust) for name in ("json", "msgpack") for trust in (True, False)),
    ],
)
def test_a_reference_comes_back_by_every_serializer(path: Path, serializer: str, trusted: bool) -> None:
    given = Reference("a" * 32, path)
    data = serializers.encode(serializer, {"args": [given]})
    assert serializers.decode(serializer, data, trusted=trusted) == {"args": [given]}


@pytest.mark.parametrize(
    "text", ["", "x" * 5000, "a", " a", "a-b c", "a [", "a _b", "a b..c", "a .b", "a b[0", "a b.@1f3a"]
)
def test_a_text_that_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        reference(text)


def test_references_are_replaced_in_arguments_and_in_containers_among_them() -> None:
    one = Reference("a", ("ch1",))
    args = (one, [one, 2], {"a": (one,)}, {one})
    found = replaced(args, lambda given: given.path[0])
    assert found == ("ch1", ["ch1", 2], {"a": (one,)}, {one})
