from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from pzc import (
    Agent,
    CallTimeout,
    LocalProtocolError,
    PeerLost,
    Protocol,
    PzcError,
    Refused,
    RemoteProtocolError,
    RemoteReference,
    SerializeError,
)

from tests.contract.rigs import misusing
from tests.contract.rigs.calling import KEY, TIMEOUT
from tests.contract.rigs.misusing import HUGE, LIMIT, UNTELLABLE, Bad

bad = misusing.bad

NAN, INF = float("nan"), float("inf")


def test_a_result_that_cannot_be_pickled_stays_where_it_is(bad: Bad) -> None:
    assert isinstance(bad.proxy.thread_lock(), RemoteReference)
    assert any(isinstance(item, RemoteReference) for item in bad.proxy.items())


def test_an_argument_that_cannot_be_pickled_is_a_serialize_error(bad: Bad) -> None:
    for argument in (threading.Lock(), lambda: None, [threading.Lock()]):
        bad.raises(SerializeError, lambda given=argument: bad.proxy.step(given))
        bad.raises(SerializeError, lambda given=argument: bad.proxy.step.future(given).result(TIMEOUT))
        bad.raises(SerializeError, lambda given=argument: bad.proxy.step.oneway(given))


@pytest.mark.parametrize("kind", ["text", "list"])
@pytest.mark.parametrize("bad", ["unix", "tcp"], indirect=True)
def test_a_result_above_the_limit_is_told_as_such(bad: Bad, kind: str) -> None:
    bad.server.protocol.codec.max_content = LIMIT - 1
    bad.raises(LocalProtocolError, lambda: bad.proxy.large(kind))


@pytest.mark.parametrize("bad", ["unix", "tcp"], indirect=True)
def test_an_argument_above_the_limit_is_told_as_such(bad: Bad) -> None:
    bad.protocol.codec.max_content = LIMIT - 1
    bad.raises(LocalProtocolError, lambda: bad.proxy.step("x" * LIMIT))


@pytest.mark.parametrize("bad", ["unix", "tcp"], indirect=True)
def test_an_argument_above_the_limit_of_the_server_is_refused_there(bad: Bad) -> None:
    bad.server.protocol.codec.max_content = LIMIT - 1
    bad.raises(RemoteProtocolError, lambda: bad.proxy.step("x" * LIMIT))


ODD = [
    None,
    "",
    "x",
    "x" * 10_000,
    7,
    -1,
    True,
    1.5,
    NAN,
    INF,
    -INF,
    HUGE,
    -HUGE,
    UNTELLABLE,
    b"x",
    [],
    {},
    {"x"},
]
STEP = ["exec", {"name": "step", "method": "__call__"}]
MESSAGES = [
    *(("exec", odd) for odd in ODD),
    *(("exec", {"name": "step", "method": "__call__", "lock": odd}) for odd in ODD if odd),
    *(("next", {"id": odd}) for odd in ODD),
    *(("batch", {"calls": odd}) for odd in ODD),
    *(("batch", {"calls": [odd]}) for odd in ODD),
    *(("batch", {"calls": [["exec", odd]]}) for odd in ODD),
    *(("batch", {"calls": [[odd, {}]]}) for odd in ODD),
    ("batch", {"calls": [["batch", {"calls": []}]]}),
    ("batch", {"calls": [STEP, ["batch", {"calls": [STEP]}]]}),
    *(("instantiate", {"class": odd}) for odd in ODD),
    *((action, {}) for action in ("nonsense", "", "__init__", "return", "raise", "x" * 100_000)),
]
WORDS = [
    *({"pzc": word, "id": odd} for word in ("future", "cancel", "drop") for odd in ODD),
    *({"pzc": word} for word in ("future", "cancel", "drop", "lock", "unlock", "alive", "nonsense", "")),
    *({"pzc": "lock", "token": odd} for odd in ODD),
    *({"pzc": "unlock", "token": odd} for odd in ODD),
    *(
        {"pzc": "lock", "token": "t", key: odd}
        for key in ("ttl", "wait", "reason", "takeover")
        for odd in ODD
    ),
    *({"pzc": odd} for odd in ODD),
    {"pzc": "placed", "mark": UNTELLABLE, "topic": UNTELLABLE},
    {"pzc": "hello", "challenge": UNTELLABLE, "answer": UNTELLABLE},
]


def test_malformed_messages_are_told_and_disturb_nobody(bad: Bad) -> None:
    for action, options in MESSAGES:
        try:
            answer = bad.raw(("PSMessage", action, options))
        except (CallTimeout, PeerLost):
            raise
        except PzcError:
            pass
        else:
            assert answer[1] in ("raise", "batch"), (action, options)
        bad.works()


def test_malformed_control_words_are_told_and_disturb_nobody(bad: Bad) -> None:
    for content in WORDS:
        try:
            bad.raw(content)
        except (CallTimeout, PeerLost):
            raise
        except PzcError:
            pass
        if content["pzc"] == "lock":
            with suppress(RemoteProtocolError):
                bad.raw({"pzc": "unlock", "token": content.get("token")})
        bad.works()


def test_malformed_control_words_to_a_locked_server_are_told_and_disturb_nobody(bad: Bad) -> None:
    with Agent(protocol=Protocol(KEY)) as other:
        endpoint = bad.server.rep_endpoint
        other.request(endpoint, {"pzc": "lock", "token": "another"}, TIMEOUT)
        for odd in ODD:
            if odd not in (7, True, INF, HUGE, UNTELLABLE):  # who would wait for it
                with pytest.raises(Refused):
                    bad.raw({"pzc": "lock", "token": "t", "wait": odd})
        assert other.request(endpoint, {"pzc": "unlock", "token": "another"}, TIMEOUT)["held"]
    bad.works()


NAMES = [
    "_private", "_hidden", "__class__", "__init__", "__dict__", "__reduce__", "step.__func__", "", " step", "0",
    7, b"step", 1.5, UNTELLABLE, ("step",), ["step"], {"step": 1}, {"step"},
]  # fmt: skip
OPERATIONS = ["__init__", "__getattribute__", "__globals__", "nothing", "", 7, None, UNTELLABLE, ["emit"], {}]
ARGUMENTS: list[dict[str, Any]] = [
    {"args": 7}, {"args": None}, {"kwargs": 7}, {"kwargs": {1: 2}}, {"kwargs": [("by", 2)]},
    {"args": (1, 2, 3)}, {"kwargs": {"nothing": 1}},
]  # fmt: skip


def error_of(answer: Any) -> str:
    """The class of what was raised."""
    assert answer[1] == "raise", answer
    return answer[2][0]["type"].rpartition(".")[2]


def test_what_is_no_public_name_is_refused_whatever_is_done_with_it(bad: Bad) -> None:
    for name in NAMES:
        for action, options in (
            ("exec", {"method": "__call__"}),
            ("exec", {"method": "__getitem__", "args": ("x",)}),
            ("getattr", {}),
            ("get", {}),
            ("setattr", {"value": 3}),
        ):
            assert error_of(bad.raw(("PSMessage", action, {"name": name, **options}))) == "MemberRefused"
    assert vars(bad.server.served_object)["_private"] == 1
    bad.works()


def test_what_is_no_operation_and_what_are_no_arguments_of_a_member_is_told(bad: Bad) -> None:
    for method in OPERATIONS:
        request = ("PSMessage", "exec", {"name": "step", "method": method})
        assert error_of(bad.raw(request)) == "MemberRefused", method
    for given in ARGUMENTS:
        request = ("PSMessage", "exec", {"name": "step", "method": "__call__", **given})
        assert error_of(bad.raw(request)) == "TypeError", given
    bad.works()
