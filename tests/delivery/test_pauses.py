from __future__ import annotations

from pzc.delivery.pauses import Pauses


def test_pauses_double_up_to_the_longest_and_begin_again_after_an_answer() -> None:
    pauses = Pauses(1.0, 5.0)
    seen = []
    for _ in range(200):
        pauses.failed(10.0)
        seen.append(pauses.until - 10.0)
    assert seen[:5] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert set(seen[3:]) == {5.0}
    pauses.answered()
    assert pauses.until < 0
    pauses.failed(10.0)
    assert pauses.until == 11.0
