"""Notifications: what they show, and when they are equal."""

from __future__ import annotations

import pytest

from pzc import Notification


def test_a_notification_shows_all_but_its_frames_and_is_compared_by_its_fields() -> None:
    one, same = (Notification("p", "", "t", "", 1, 7, 0.0, 0.0, "x", "", (b"frame",)) for _ in range(2))
    assert one == same
    assert hash(one) == hash(same)
    assert repr(one).startswith(
        "Notification(publisher='p', name='', topic='t', key='', sequence=1, epoch=7, "
    )
    assert "content='x'" in repr(one)
    assert "frame" not in repr(one)
    with pytest.raises(AttributeError):
        one.topic = "u"  # pyright: ignore[reportAttributeAccessIssue]
