"""Typed: are the messages of a topic what a subscription to it asks for?

Judged when a subscription begins, and again when another agent has taken its publisher's place, before
anything of that one is delivered; a type that is said later, when it is said (`judging`). Who says no type,
on either side, takes any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, cast

from ...protocol.errors import PzcError, Refused, TypeMismatch
from ...protocol.reply import Reply
from .subscription import Subscription

logger = logging.getLogger("pzc.subscription")

Ask = Callable[[dict[str, Any]], Reply]
"""Asks the publisher; raises PzcError when that is in vain."""


def question(topic: str, wanted: str, known: str | None = None) -> dict[str, Any]:
    """What a publisher is asked.

    Args:
        topic: of the subscription.
        wanted: the type that it asks for.
        known: what is known of the topic's type: the answer waits for a while until that is no longer true;
            None to be answered at once.
    """
    asked = {"pzc": "topic", "topic": topic, "wanted": wanted}
    return asked if known is None else {**asked, "known": known}


def said(answer: object) -> str:
    """The type that a publisher said in its answer; empty for none."""
    found = cast("dict[str, Any]", answer).get("type") if isinstance(answer, dict) else None
    return found if isinstance(found, str) else ""


def check(endpoint: str, topic: str, wanted: str, answer: object) -> None:
    """Judge what a publisher answered.

    Raises:
        TypeMismatch: when it says another type than the wanted one.
    """
    found = said(answer)
    if found and found != wanted:
        raise TypeMismatch(
            f"topic {topic!r} of {endpoint} has messages of type {found}, and {wanted} is asked for: "
            "subscribe with that type, or without any"
        )


def end(subscription: Subscription, refusal: Refused) -> None:
    """A subscription cannot follow its publisher: it ends, and says why."""
    logger.warning("the subscription to %r has ended: %s", subscription.topic, refusal)
    subscription.refusal = refusal
    subscription.report_lost(str(refusal), ends=True)


def still_fits(subscription: Subscription, endpoint: str, ask: Ask) -> bool:
    """Whether a subscription may follow a publisher; when not, it ends, and is told why by ``on_lost``.

    Raises:
        PzcError: when the publisher could not be asked.
    """
    wanted, topic = subscription.type, subscription.topic
    if not wanted:
        return True
    try:
        check(endpoint, topic, wanted, ask(question(topic, wanted)).content)
    except TypeMismatch as exc:
        end(subscription, exc)
        return False
    return True


def begin_if_it_fits(
    subscription: Subscription,
    endpoint: str,
    ask: Callable[[dict[str, Any]], Future[Reply]],
    begin: Callable[[], object],
) -> None:
    """As `still_fits` without waiting: begin when the answer has come, or none comes; I/O thread."""
    try:
        answer = ask(question(subscription.topic, subscription.type))
    except PzcError:  # whoever cannot be asked will be met anew
        begin()
    else:
        answer.add_done_callback(partial(_begin_if_it_fits, subscription, endpoint, begin))


def _begin_if_it_fits(
    subscription: Subscription, endpoint: str, begin: Callable[[], object], answer: Future[Reply]
) -> None:
    with suppress(PzcError):
        still_fits(subscription, endpoint, lambda _: answer.result(0))
    if not subscription.closed:
        begin()
