"""Listening: what an agent offers to whoever gets the notifications of others with it."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from functools import partial
from numbers import Real
from typing import Any, TypeVar

from ...delivery.policies import Policy, drop
from ...delivery.throttle import Throttle
from ...discovery.names import is_pattern, type_name
from ...discovery.records import Place
from ...protocol.errors import ConfigError, PeerLost, PolicyRefused, UnknownName
from ...transport.executor import Executor
from ...transport.settings import TRANSPORTS
from ..client.named_client import NamedClient
from ..naming.follower import follow
from ..naming.naming import Naming
from ..naming.watching import Watching
from ..notification import Notification
from ..signals import is_awaited
from .callbacks import Awaiting, Runs
from .columns import Sink
from .keys import check_topic, checked
from .merged import Make, Merged
from .subscribing import OnClose, Subscribing
from .subscription import Callback, Subscription

logger = logging.getLogger("pzc.subscriber")

Slot = TypeVar("Slot", bound=Callable[[Notification], object])


class Listening:
    """All that one agent gets the notifications of others with; any thread.

    Args:
        subscribing: makes subscriptions at endpoints.
        callbacks: runs callbacks.
        finder: finds and asks publishers.
        naming: follows their names.
        name: of the agent, for threads.
        check_usable: AgentClosed when the agent was stopped.
    """

    def __init__(
        self,
        subscribing: Subscribing,
        callbacks: Executor,
        finder: NamedClient,
        naming: Naming,
        name: str,
        check_usable: Callable[[], None],
    ) -> None:
        self._subscribing = subscribing
        self._callbacks = callbacks
        self._finder = finder
        self._naming = naming
        self._name = name
        self._check_usable = check_usable
        self._awaiting = threading.Lock()
        self._awaited: Awaiting | None = None

    def subscribe(
        self,
        publisher: str,
        topic: str,
        callback: Callback | None = None,
        *,
        policy: Policy | None = None,
        key: str | Iterable[str] | None = None,
        raw: bool = False,
        timeout: float = 5.0,
        executor: Executor | None = None,
        transport: str | None = None,
        throttle: float | None = None,
        initial: bool = False,
        type: str | type | None = None,
        ignore_local: bool = False,
        manual_ack: bool = False,
        sink: Sink | None = None,
        fallback: Policy | None = None,
        must_exist: bool = False,
    ) -> Subscription:
        """Get another agent's notifications; returns when it has confirmed the subscription.

        Args:
            publisher: REP endpoint, name, or pattern of names (``cam*``): all agents that have such a name,
                also those that come later. A name that nobody has within ``timeout`` seconds, 3 at most, is
                subscribed to once somebody has it, which is logged; what refuses it then ends the
                subscription, with `Subscription.on_lost`.
            topic: one topic, or ``*`` for all; of one of several objects of a server without its name.
            callback: called with each Notification, one at a time; while it takes longer than
                5 milliseconds, the agent's other callbacks are called beside it. A coroutine
                function is awaited, beside the others. None to use `recv` or iteration.
            policy: ``drop(n)``, ``latest(k)``, ``block()`` or ``mailbox()``; default that of the settings
                file, else ``drop(1000)``.
            key: only notifications with this key, or with one of these: one subscription of thousands of keys
                gets those of each in order, and `Notification.key` tells which it is. ``""`` are those
                without a key. Default: all.
            raw: do not decode; give the five frames.
            timeout: seconds for the publisher's confirmation.
            executor: thread for the callback, instead of the agent's.
            transport: ``inproc``, ``unix`` or ``tcp`` for that way and no other; ``auto``: the first of
                them that works. For ``drop(n)`` and ``latest(k)`` ``tcp`` is broadcast, as it is for raw
                frames and original Pizcos, unless ``key``, ``initial`` or ``type`` is given. ``inproc``
                hands a callback the object itself that was published: do not change it. Default
                ``PZC_TRANSPORT``, else that of the settings file, else ``auto``.
            throttle: at most so many notifications per second.
            initial: begin with what the publisher keeps of the topic (see `advertise`), marked as
                `Notification.initial`.
            type: what the messages have to be, a class or its name; a publisher that says another type is
                refused (`advertise`), one that says none is not.
            ignore_local: leave out what agents of this process publish; counted as `Subscription.ignored`.
            manual_ack: with ``mailbox()``: a message is done with, and its publisher may forget it, only when
                `Notification.acknowledge` was called.
            sink: with ``raw`` and ``manual_ack``: takes what comes, in the place of the callback.
            fallback: the policy where a publisher refuses ``policy``, which is logged then; the callback gets
                what comes, and nothing needs to be acknowledged.
            must_exist: raise UnknownName for a name that nobody has, PeerLost for one that is just lost.
                Default: wait for it, unless ``transport`` says a way.

        Raises:
            TypeMismatch: when the publisher says another type.
            PolicyRefused: for a policy that this publisher, or this way, does not offer.
            Refused: for ``initial`` at a publisher that keeps nothing for anybody, such as an original Pizco.
            ConfigError: for an argument that cannot be used.
            LocalProtocolError: for a topic or key that nothing can be published with.
            PeerLost: where nobody is at an endpoint, or a transport does not reach the publisher.
            CallTimeout, SignatureError: as `request`.
            UnknownName: likewise, with ``must_exist`` or where no name can be heard of.
        """
        self._check_usable()
        check(publisher, topic, callback, (policy, fallback), timeout, executor, transport, throttle)
        keys = checked(key)
        runs: Runs | None = self._event_loop() if is_awaited(callback) else executor
        options: dict[str, Any] = {
            "topic": topic, "policy": policy or drop(), "raw": raw,
            "executor": self._callbacks if runs is None else runs, "transport": transport,
            "initial": initial, "type": type_name(type),
            "ignore_local": ignore_local, "manual_ack": manual_ack, "sink": sink, "fallback": fallback,
            "callback": callback, "key": keys, "throttle": throttle,
        }  # fmt: skip
        if manual_ack and options["policy"].name != "mailbox":
            raise ConfigError(f"manual_ack needs policy=mailbox(), not {options['policy'].name}")
        if "://" in publisher or not is_pattern(publisher):
            try:
                return self.join(publisher, timeout, options)
            except (UnknownName, PeerLost) as absent:
                forced = must_exist or "://" in publisher or transport not in (None, "auto")
                if forced or not self._naming.hears():
                    raise
                logger.warning("%s/%s is subscribed to once it is there: %s", publisher, topic, absent)
        return self._watch(publisher, timeout, options)

    def on(self, publisher: str, topic: str, **options: Any) -> Callable[[Slot], Slot]:
        """`subscribe` as a decorator: what it decorates is called with each notification.

        It stays what it is; `unsubscribe` ends it. A function that is decorated several times is called for
        each. An ``async def`` runs on an event loop of the agent.

        Args:
            publisher: as `subscribe`.
            topic: as `subscribe`.
            options: any other of `subscribe`, such as ``policy``.

        Raises:
            PzcError: as `subscribe`, when something is decorated.
        """

        def subscribed(callback: Slot) -> Slot:
            self.subscribe(publisher, topic, callback, **options)
            return callback

        return subscribed

    def _event_loop(self) -> Awaiting:
        with self._awaiting:
            if self._awaited is None:
                self._awaited = Awaiting(self._name)
            return self._awaited

    def close(self) -> None:
        """Close every subscription."""
        if self._awaited is not None:
            self._awaited.close()
        self._subscribing.close()

    def join(self, publisher: str, timeout: float, options: dict[str, Any]) -> Subscription:
        """Subscribe to one publisher; arguments and errors as `Subscribing.subscribe`, and ``fallback``."""
        found, options = self._subscribing.bare.find(self._finder, publisher, timeout), {**options}
        options["topic"] = found.peer.topic_at(publisher, options["topic"])
        fallback: Policy | None = options.pop("fallback", None)
        join = partial(self._subscribing.subscribe, found.place.endpoint, timeout=found.left)
        try:
            subscription = join(**options)
        except PolicyRefused as exc:
            if fallback is None:
                raise
            logger.warning("%s of %s comes with %s: %s", options["topic"], publisher, fallback.name, exc)
            options |= {"policy": fallback, "manual_ack": False, "sink": None}
            subscription = join(**options)
        self.come_along(subscription, publisher, found.place)
        return subscription

    def come_along(self, subscription: Subscription, name: str, place: Place) -> None:
        """Have a subscription follow the agent of a name, which is at that place now."""
        move = partial(self._subscribing.move, subscription)
        follower = follow(self._naming, name, place, move)
        if follower is not None:
            self._subscribing.keep(subscription, follower)

    def _watch(self, pattern: str, timeout: float, options: dict[str, Any]) -> Merged:
        single = not is_pattern(pattern)
        patience = math.inf if single else options["policy"].keep or 0.0

        def join(source: str, make: Make) -> Subscription:
            return self.join(source, timeout, {**options, "callback": None, "throttle": None, "make": make})

        def make(on_close: OnClose) -> Merged:
            return Merged(
                pattern, options["topic"], options["callback"], options["policy"], options["key"],
                options["executor"], on_close, options["raw"], options["throttle"], join=join,
                patience=patience,
            )  # fmt: skip

        return self._subscribing.follow(Watching(self._naming, pattern), make, 0.0 if single else timeout)

    def unsubscribe(self, publisher: str, topic: str) -> int:
        """Close this agent's subscriptions to a topic; returns how many there were.

        Args:
            publisher: as `subscribe`.
            topic: as `subscribe`.
        """
        dispersed = self._subscribing.disperse(publisher, topic)
        if "://" not in publisher and is_pattern(publisher):
            return dispersed
        try:
            found = self._finder.peer(publisher)
        except UnknownName:
            if dispersed:
                return dispersed
            raise
        return dispersed + self._subscribing.unsubscribe(found.agent_id, found.topic_at(publisher, topic))


def check(
    publisher: object, topic: object, callback: object, policies: tuple[object, ...], timeout: object,
    executor: object, transport: object, throttle: float | None = None,
) -> None:  # fmt: skip
    """Whether arguments of `Listening.subscribe` are of the kinds that can be used.

    Raises:
        ConfigError: for one that is not; for a topic LocalProtocolError.
    """
    if not isinstance(publisher, str):
        raise ConfigError(
            f"publisher={publisher!r:.60} cannot be used: expected an endpoint, name or pattern"
        )
    check_topic(topic)
    if callback is not None and not callable(callback):
        raise ConfigError(f"callback={callback!r:.60} cannot be used: expected a function")
    for policy in policies:
        if policy is not None and not isinstance(policy, Policy):
            known = "drop(n), latest(k), block() or mailbox()"
            raise ConfigError(f"policy={policy!r:.60} cannot be used: expected {known}")
    if not isinstance(timeout, Real) or not 0 <= float(timeout) <= threading.TIMEOUT_MAX:
        raise ConfigError(f"timeout={timeout!r:.60} cannot be used: expected seconds")
    if executor is not None and not isinstance(executor, Executor):
        raise ConfigError(f"executor={executor!r:.60} cannot be used: expected an Executor")
    if transport is not None and transport not in TRANSPORTS:
        known = ", ".join(TRANSPORTS)
        raise ConfigError(f"transport={transport!r:.60} cannot be used: expected one of {known}")
    if throttle is not None:
        Throttle(throttle)
