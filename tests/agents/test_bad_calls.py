from __future__ import annotations

from typing import Any

import pytest

from pzc import (
    MemberRefused,
)

from tests.contract.rigs import misusing
from tests.contract.rigs.misusing import UNTELLABLE, Bad

bad = misusing.bad


def shown(value: object) -> str:
    return "huge" if value == UNTELLABLE else f"{value!r:.20}"


def outright(bad: Bad, action: str, **options: Any) -> Any:
    """Whatever a proxy would not ask for."""
    return bad.proxy._proxy_remote.request(action, options)


NAMES = [
    "_private", "_hidden", "__class__", "__init__", "__dict__", "__reduce__", "step.__func__", "", " step", "0",
    7, b"step", 1.5, UNTELLABLE, ("step",), ["step"], {"step": 1}, {"step"},
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=shown)
def test_what_is_no_public_name_is_refused(bad: Bad, name: object) -> None:
    bad.raises(MemberRefused, lambda: outright(bad, "exec", name=name, method="__call__"))
    bad.raises(MemberRefused, lambda: outright(bad, "exec", name=name, method="__getitem__", args=("x",)))
    bad.raises(MemberRefused, lambda: outright(bad, "getattr", name=name))
    bad.raises(MemberRefused, lambda: outright(bad, "get", name=name))
    bad.raises(MemberRefused, lambda: outright(bad, "setattr", name=name, value=3))
    assert bad.server.served_object._private == 1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "method", ["__init__", "__getattribute__", "nothing", "", 7, None, UNTELLABLE, ["emit"], {}], ids=shown
)
def test_what_is_no_operation_of_a_member_is_refused(bad: Bad, method: object) -> None:
    bad.raises(MemberRefused, lambda: outright(bad, "exec", name="step", method=method))


def test_a_member_that_is_not_there_is_an_attribute_error(bad: Bad) -> None:
    bad.raises(AttributeError, lambda: bad.proxy.nothing)
    bad.raises(AttributeError, lambda: outright(bad, "exec", name="nothing", method="__call__"))


def test_wrong_arguments_are_type_errors(bad: Bad) -> None:
    bad.raises(TypeError, lambda: bad.proxy.step(1, 2, 3))
    bad.raises(TypeError, lambda: bad.proxy.step(nothing=1))
    for given in ({"args": 7}, {"args": None}, {"kwargs": 7}, {"kwargs": {1: 2}}, {"kwargs": [("by", 2)]}):
        bad.raises(
            TypeError, lambda given=given: outright(bad, "exec", name="step", method="__call__", **given)
        )
