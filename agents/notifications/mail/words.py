"""Words: what readers and publishers of mailboxes say, as contents of requests and answers.

::

    request                                               answer
    {"pzc": "mailbox", "offer": topic, "policy": p}       {"pzc": "mailbox", "offered": topic, "raw": True}
    {"pzc": "mailbox", "name": n, "serial": s,            {"pzc": "mailbox", "position": p, "applied": number,
     "position": p or None, "batch": {...}}                "lasts": {topic: last}, "types": {topic: type},
                                                           "refused": [[place, reason], ...] or missing};
                                                           "outdated": number
    {"pzc": "collect", "name": n, "serial": s,            a `bundle.Mail`, within "hold" seconds
     "position": p or None, "after": n or None,
     "acknowledged": n, "limit": n, "hold": s,             or, when ``raw``, `bundle.Signed`
     "raw": bool}
    {"pzc": "discard", "name": n, "position": p}          {"pzc": "discard"}
    any of them                                           {"pzc": "mailbox", "refusal": reason, "epoch": e}

A position is ``[epoch, tenure]``, a name None for the process's own mailbox. The process is the sender of the
request, its identity the key that signed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ....delivery.mail import (
    BATCH_MESSAGES,
    MAX_WHO,
    Applied,
    Batch,
    Caller,
    Command,
    CommandRequest,
    Commands,
    Declined,
    Lost,
    Message,
    Outdated,
    PollRequest,
    Position,
    Refusal,
)
from ....delivery.policies import MAX_NAME, Policy, mailbox
from ....protocol import limits
from ....protocol.bundle import Item, Mail, Range, Signed
from ....protocol.errors import PzcError, RemoteProtocolError
from ....protocol.records import Records
from ....protocol.shown import shown
from ...words import Request
from .drafts import Draft

Word = dict[str, Any]
Answer = Applied | Outdated | Refusal | Batch[Item]

MAX_HOLD = 60.0
"""Seconds that a poll may ask to be held."""


# --- requests --------------------------------------------------------------------------------------------


def word_of(
    request: CommandRequest | PollRequest,
    name: str | None,
    raw: bool = False,
    agents: Callable[[Command], list[str]] = lambda _: [],
) -> Word:
    """The content of a request; a ``raw`` poll asks for records. ``agents`` tells whom a command is for."""
    position = None if request.position is None else list(request.position)
    who: Word = {"name": name, "serial": request.serial, "position": position}
    if isinstance(request, PollRequest):
        return {
            "pzc": "collect", **who, "after": request.after, "acknowledged": request.acknowledged,
            "limit": request.limit, "hold": request.hold, **({"raw": True} if raw else {}),
        }  # fmt: skip
    batch = request.batch
    own = (
        name is None
    )  # what another process wanted of a mailbox with a name stays until it is said otherwise
    return {
        "pzc": "mailbox", **who,
        "batch": {
            "number": batch.number, "commands": [list(command[:3]) for command in batch.commands],
            "who": [agents(command) for command in batch.commands],
            "policy": policy_word(batch.policy), "begins": own and batch.begins, "ends": own and batch.ends,
        },
    }  # fmt: skip


def policy_word(policy: Policy) -> list[Any]:
    """A policy of a mailbox in a request."""
    return [policy.bound, policy.max_bytes, policy.when_full, policy.keep]


def read_caller(request: Request, content: Mapping[str, Any]) -> Caller:
    """Who asks.

    Raises:
        RemoteProtocolError: for a name that no mailbox has.
    """
    name = content.get("name")
    if name is not None and (type(name) is not str or not 1 <= len(name) <= MAX_NAME):
        raise RemoteProtocolError(f"a mailbox was asked for by a name that none has: {shown(name, 100)}")
    return Caller(request.message.sender, name, request.message.key_id)


def read_commands(content: Mapping[str, Any]) -> CommandRequest:
    """The request in a content.

    Raises:
        RemoteProtocolError: for another form.
    """
    try:
        batch = _dict(content["batch"])
        commands = cast("list[Any]", batch["commands"])
        agents = cast("list[Any]", batch.get("who") or [()] * len(commands))
        if type(commands) is not list or len(commands) > limits.current.mail_commands:
            raise ValueError(f"at most {limits.current.mail_commands} commands, in a list")
        said = Commands(
            _number(batch["number"]), [_command(*each) for each in zip(commands, agents, strict=True)],
            _policy(batch["policy"]), batch["begins"] is True, batch["ends"] is True,
        )  # fmt: skip
        return CommandRequest(_number(content["serial"]), _position(content["position"]), said)
    except (KeyError, TypeError, ValueError, PzcError) as exc:
        raise RemoteProtocolError(f"a mailbox was asked for in an unknown form: {exc!r:.200}") from None


def read_offer(content: Mapping[str, Any]) -> Policy:
    """The policy that is asked for in an offer; errors as `read_commands`."""
    try:
        return _policy(content["policy"])
    except (KeyError, TypeError, ValueError, PzcError) as exc:
        raise RemoteProtocolError(f"a mailbox was asked for in an unknown form: {exc!r:.200}") from None


def read_poll(content: Mapping[str, Any]) -> PollRequest:
    """The request in a content; errors as `read_commands`."""
    try:
        after, hold = content["after"], float(content["hold"])
        return PollRequest(
            _number(content["serial"]), _position(content["position"]),
            None if after is None else _number(after), _number(content["acknowledged"]),
            min(_number(content["limit"]), BATCH_MESSAGES), min(hold, MAX_HOLD) if hold > 0 else 0.0,
            content.get("raw") is True,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as exc:
        raise RemoteProtocolError(f"a mailbox was polled in an unknown form: {exc!r:.200}") from None


def read_position(content: Mapping[str, Any]) -> Position | None:
    """The position in a content; errors as `read_commands`."""
    try:
        return _position(content["position"])
    except (KeyError, TypeError, ValueError) as exc:
        raise RemoteProtocolError(f"a mailbox was named in an unknown form: {exc!r:.200}") from None


# --- answers ---------------------------------------------------------------------------------------------


def answer_word(answer: Applied | Outdated | Refusal, topics: Mapping[str, Any]) -> Word:
    """The content of an answer without messages; an applied one tells this of the topics, too."""
    if isinstance(answer, Refusal):
        return {"pzc": "mailbox", "refusal": answer.reason, "epoch": answer.epoch}
    word: Word = {"pzc": "mailbox", "position": list(answer.position)}
    if isinstance(answer, Applied):
        refused = {"refused": [list(each) for each in answer.refused]} if answer.refused else {}
        return {**word, "applied": answer.number, **topics, **refused}
    return {**word, "outdated": answer.last}


def mail_of(batch: Batch[Draft], records: Records | None) -> Mail:
    """A batch as it goes over the wire; as records when there is what makes them."""
    ranges = [Range(*lost) for lost in batch.lost]
    epoch, tenure = batch.position
    drafts = [message.payload for message in batch.messages]
    if records is None:
        items = [draft.item for draft in drafts]
        return Mail(batch.first, items, epoch, tenure, batch.after, ranges, [*batch.withdrawn])
    sealed = [draft.record or draft.seal(records) for draft in drafts]
    return Signed(batch.first, sealed, epoch, tenure, batch.after, ranges, [*batch.withdrawn])


def read_answer(content: object, raw: bool = False) -> tuple[Answer, dict[str, int]]:
    """The answer in a content, and the last numbers of topics that came with it.

    Raises:
        RemoteProtocolError: for anything else; with ``raw`` also for messages without frames, which were
            asked for before these were wanted and are to come again.
    """
    if isinstance(content, Mail):
        if raw and content.items and type(content) is not Signed:
            raise RemoteProtocolError("messages came without the frames that are wanted by now")
        return _batch(content), {}
    try:
        word = _dict(content)
        if word["pzc"] != "mailbox":
            raise ValueError(f"the word is {shown(word['pzc'], 40)}")
        if "refusal" in word:
            return Refusal(word["refusal"], _number(word["epoch"])), {}
        position = _position(word["position"])
        if position is None:
            raise ValueError("no position")
        if "outdated" in word:
            return Outdated(position, _number(word["outdated"])), {}
        lasts = {str(topic): _number(last) for topic, last in _dict(word["lasts"]).items()}
        refused = tuple((_number(place), str(reason)) for place, reason in word.get("refused", ()))
        return Applied(position, _number(word["applied"]), refused), lasts
    except (KeyError, TypeError, ValueError) as exc:
        raise RemoteProtocolError(f"a mailbox answered in an unknown form: {exc!r:.200}") from None


def _batch(mail: Mail) -> Batch[Item]:
    if mail.first <= mail.after and mail.items:
        raise RemoteProtocolError(
            f"a mailbox sent messages from {mail.first} on as what follows {mail.after}"
        )
    messages = [Message(item.topic, item.key, item.number, 0, item, 0.0) for item in mail.items]
    lost = tuple(
        Lost(each.first_number, each.last_number, each.topic, each.first, each.last, each.evicted, each.key)
        for each in mail.ranges
    )
    return Batch(
        Position(mail.epoch, mail.tenure), mail.after, mail.first, messages, lost, tuple(mail.withdrawn)
    )


def refusal_text(reason: str, name: str | None, endpoint: str) -> str:
    """What a refusal means, for people."""
    known = {
        "taken over": "is read by another process now, which subscribed with the same name",
        "no room": "was refused: its publisher has no room for one more, or for one more of this key",
        "beyond": "was refused: its publisher has never sent what was acknowledged",
    }
    return f"{_which(name, endpoint)} {known.get(reason, f'was refused: {reason}')}"


def declined_text(declined: Declined, name: str | None, endpoint: str) -> str:
    """What the refusal of one command means, for people."""
    topic, key = declined.command.topic, declined.command.key
    reasons: dict[str, str] = {"no room": "it has as many topics and keys as it may have"}
    what = f"topic {topic!r}" if key is None else f"key {shown(key, 100)} of topic {topic!r}"
    why = reasons.get(declined.reason, declined.reason)
    return f"{_which(name, endpoint)} does not take {what}: {why}"


def _which(name: str | None, endpoint: str) -> str:
    return f"the mailbox {name!r} at {endpoint}" if name is not None else f"the mailbox at {endpoint}"


# --- parts -----------------------------------------------------------------------------------------------


def _dict(value: object) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError(f"{shown(value, 60)} is no table")
    return cast("dict[str, Any]", value)


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{shown(value, 40)} is no number")
    return value


def _policy(value: object) -> Policy:
    bound, max_bytes, when_full, keep = cast("list[Any]", value)
    return mailbox(_number(bound), _number(max_bytes), when_full, keep=float(keep))


def _position(value: object) -> Position | None:
    if value is None:
        return None
    epoch, tenure = cast("list[Any]", value)
    return Position(_number(epoch), _number(tenure))


def _command(value: object, agents: object) -> Command:
    topic, key, subscribe = cast("list[Any]", value)
    who = tuple(cast("list[Any]", agents))
    if type(topic) is not str or not topic or not (key is None or type(key) is str):
        raise ValueError(f"{shown(value, 100)} is no command")
    if len(who) > MAX_WHO or not all(type(each) is str and len(each) <= MAX_NAME for each in who):
        raise ValueError(f"{shown(agents, 100)} are no agents")
    return Command(topic, key, subscribe is True, who)
