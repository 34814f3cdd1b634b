"""Every time that is waited and every bound that is kept, in one frozen object: ``limits.current``.

The table ``[limits]`` of ``pzc.toml`` changes values; tests replace them with `pzc.testing.Timings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from .errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Times in seconds, sizes in bytes, other bounds in pieces."""

    # Signs of life
    silence: float = 4.0
    """Seconds without a sign of life after which whoever holds, reads or publishes something is gone."""

    stalled: float = 3.0
    """Seconds of silence after which the other end of a link is stalled; at most 3/4 of `silence`."""

    sign_of_life: float = 1.0
    """Seconds between two signs of life of one end of a link; at most a quarter of `silence`."""

    alive_timeout: float = 2.0
    """Seconds that whoever holds something waits for the answer to a sign of life; less than `silence`."""

    publisher_retry: float = 1.0
    """Seconds until a publisher that did not answer is asked again."""

    link_look: float = 1.0
    """Seconds between two looks at the signs of life of all links, which are sent then as well."""

    farewell: float = 1.0
    """Seconds that the stop of a publisher waits for the readers of its links."""

    senders_per_key: int = 4096
    """Starts of agents that one key may sign for, of which an agent remembers what it has accepted."""

    signatures_per_key: int = 1 << 16
    """Signatures of originals that are remembered for each key."""

    nonces_per_key: int = 1024
    """Measurements of clocks that the holders of one key may have begun."""

    name_kept: float = 60.0
    """Seconds for which the name of an agent that is gone can be taken only with the key that it had."""

    # Calls
    call_recovery: float = 3.0
    """Seconds after the loss of its connection within which a call asks a silent peer for its result."""

    result_kept: float = 60.0
    """Seconds that a result is kept."""

    result_wait: float = 20.0
    """Seconds after which a request for a running result is answered 'pending'."""

    running_futures: int = 10_000
    """Futures of one server that may be running for one key."""

    results_kept: int = 10_000
    """Results that one server keeps for each key."""

    result_bytes: int = 64 << 20
    """Bytes of all results that one server keeps for each key."""

    batch_calls: int = 10_000
    """Calls of one batch."""

    deferred_calls: int = 10_000
    """Deferred requests of one agent that may be unanswered."""

    quick_call: float = 0.001
    """Seconds within which a quick request is answered and a quick callback returns."""

    quick_proofs: int = 3
    """Times in succession that it must have been so before the thread that brings the next one does it."""

    lane_look: float = 0.5
    """Seconds between two looks whether the sender of a waiting request is still there."""

    call_look: float = 0.25
    """Seconds between two looks whether the callers of what runs are still there."""

    way_lost: float = 0.5
    """Seconds that a caller without way back has to be heard of by another one."""

    lane_waiting: int = 100_000
    """Requests that may wait for one lane."""

    lane_waiting_per_key: int = 50_000
    """Requests with one key that may wait for one lane."""

    lock_waiting: int = 1000
    """Requests that may wait for the lock of one server."""

    lock_waiting_per_key: int = 500
    """Requests with one key that may wait for the lock of one server."""

    streams: int = 1000
    """Open streams of one server that the holders of one key have."""

    poll_shortest: float = 0.001
    """Seconds of the shortest period in which a member is polled."""

    handles: int = 10_000
    """Objects returned by methods of one server that the holders of one key have handles of."""

    sessions: int = 512
    """Clients with one key that are known over TCP by their headers; the one met first makes room."""

    described_paths: int = 4096
    """Paths into a served object of whose members a proxy remembers what it was told."""

    completion: float = 0.5
    """Seconds that a proxy which is not connected yet takes at most to say what members there are."""

    audit_waiting: int = 10_000
    """Audited calls that wait to be published; others are counted as ``calls_unpublished``."""

    process_start: float = 30.0
    """Seconds that a server process may take until it serves."""

    # Connections
    connections: int = 256
    """Unix connections of one agent; more are turned away and use TCP."""

    connection_idle: float = 30.0
    """Seconds after which a connection that nobody uses is closed, but for the last one to a peer in use."""

    strangers: int = 512
    """TCP connections that a listening socket has at most; a new one beyond them is hung up."""

    handshake: float = 5.0
    """Seconds within which whoever connects over TCP must have said that it speaks ZeroMQ."""

    frame_bytes: int = 256 << 20
    """Bytes of the largest frame that is taken from, or sent to, whoever comes over TCP."""

    unsent_per_key: int = 1 << 30
    """Bytes of answers over TCP that the connections of one key have not taken; each may have one beyond."""

    greeting: float = 1.0
    """Seconds that a greeting on a Unix connection may take."""

    scarcity_pause: float = 0.25
    """Seconds without accepting anything after no descriptor, memory or thread was left for a connection."""

    high_water_mark: int = 10_000
    """Messages that a ZeroMQ socket holds for one slow peer before it drops or refuses more."""

    io_take_over: float = 0.006
    """Seconds aside after which another thread becomes the I/O thread."""

    io_stand_by: float = 0.1
    """Seconds without such an absence after which the thread that stands by goes to sleep."""

    send_tail: float = 0.02
    """Seconds after which news is seen that came with the last message of a burst."""

    send_look: float = 0.001
    """Seconds after which whoever sends looks for news."""

    send_waiting: int = 1000
    """Messages from which on a sender waits until they went."""

    send_patience: float = 1.0
    """Seconds that a sender waits at most; beyond them more than `send_waiting` may wait."""

    # Notifications
    topic_beat: float = 1.0
    """Seconds between two messages that tell the last number of every topic."""

    topic_beat_topics: int = 500
    """Topics in one of these messages."""

    filters: int = 1 << 18
    """Different filters of one PUB endpoint."""

    marks: int = 2000
    """Subscriptions to what one agent broadcasts that wait for their mark."""

    marks_per_key: int = 1000
    """Subscriptions with one key that wait for their mark at one agent."""

    early_notifications: int = 10_000
    """Notifications that may arrive before the publisher's confirmation."""

    gui_turn: float = 0.01
    """Seconds for which slots keep the GUI thread of a Qt program; then the user's events have their turn."""

    gui_waiting: int = 10_000
    """Emissions of one connection that may wait for a GUI thread; then the oldest is dropped."""

    callback_turn: float = 0.005
    """Seconds after which a callback lets others have their turn, or others are called beside a slow one."""

    stalled_callbacks: int = 32
    """Callbacks of one agent, and slots of one proxy, that may be slow side by side."""

    retained_bytes: int = 1 << 16
    """Bytes of the largest encoded content that is kept for later subscribers."""

    links: int = 1000
    """Links of one publisher."""

    links_per_key: int = 500
    """Links of one publisher that the holders of one key have."""

    interests_per_key: int = 2_000_000
    """Topics and keys that the holders of one key want of one publisher, by links and mailboxes."""

    link_keep: float = 300.0
    """Seconds after which the link of a reader that was silent ends; until then what it loses is counted."""

    burst_pause: float = 50e-6
    """Seconds from one publication to the next below which they may belong to a burst."""

    burst_publications: int = 8
    """Quick publications in succession after which more are gathered."""

    burst_gathering: float = 500e-6
    """Seconds that a message of a burst waits for others."""

    answers_behind: int = 1 << 20
    """Bytes of answers that may wait behind the rest of a message; a reader that takes none is given up."""

    # Mailboxes
    mail_block: float = 30.0
    """Seconds that a publication waits for room in mailboxes with ``when_full="block"``."""

    mail_gathering: float = 0.02
    """Seconds that an answer of a mailbox waits for more notifications."""

    mail_hold: float = 1.0
    """Seconds that a publisher may hold a poll."""

    mail_patience: float = 2.0
    """Seconds after which an answer of a mailbox that is due is not expected any more."""

    mail_grace: float = 30.0
    """Seconds that a mailbox is left behind the time for which it is kept."""

    mailboxes: int = 1000
    """Mailboxes of one publisher."""

    mailboxes_per_key: int = 500
    """Mailboxes of one publisher that the holders of one key have."""

    mail_bytes_per_key: int = 16 << 30
    """Bytes that all mailboxes of one key hold at one publisher; shared among them."""

    mail_adoption: float = 10.0
    """Seconds for which a process that opens a named mailbox may ask for what is kept there."""

    mail_subscriptions: int = 1_000_000
    """Topics and keys of one mailbox."""

    # Discovery
    heartbeats_wait: float = 0.5
    """Seconds for which heartbeats may wait, to be heard together."""

    names_held: float = 30.0
    """Seconds for which names that a registry told live on while it does not answer."""

    processes: int = 10_000
    """Processes that a directory, or a registry, knows."""

    processes_per_key: int = 5000
    """Processes that announce with one key which a directory, or a registry, knows."""

    entries: int = 100_000
    """Agents and topics of other processes in a directory; one that is heard on two ways counts twice."""

    entries_per_key: int = 50_000
    """Agents and topics in a directory that were announced with one key."""

    registry_bytes: int = 64 << 20
    """Bytes of all that processes tell a registry."""

    registry_bytes_per_key: int = 32 << 20
    """Bytes of all that processes with one key tell a registry."""

    questions: int = 20_000
    """Questions that wait for news at a registry; others are answered at once."""

    questions_per_key: int = 10_000
    """Questions with one key that wait for news at a registry."""

    announced_topics: int = 1000
    """Topics of one agent that are announced."""

    # Shared memory and what is remembered
    free_bytes: int = 128 << 20
    """Bytes of blocks that one writer keeps although nobody uses them."""

    known_series: int = 4096
    """Topics, each of one publisher in one serializer, that are remembered; then it begins anew."""

    known_array_headers: int = 256
    """Pickles of arrays that are remembered; then it begins anew."""

    maintenance_pause: float = 30.0
    """Seconds between two looks of a recorder at what is to be compacted or removed."""

    compact_age: float = 300.0
    """Seconds after which a segment may be compacted: whoever follows the journal has read it by then."""

    covered_grace: float = 3600.0
    """Seconds for which segments stay beside the compacted one that stands for them."""

    nesting: int = 200
    """Containers inside each other in an untrusted content."""

    equal_hashes: int = 64
    """Keys of equal hashes in one table of an untrusted content."""

    unfolded: int = 1 << 22
    """Parts of an untrusted pickle when what is shared in it is unfolded, and 32 for each of its bytes."""

    range_items: int = 1 << 16
    """Numbers that a range in an untrusted pickle may stand for."""

    hash_unchecked: int = 1 << 15
    """Bytes of a MessagePack content up to which the keys of its maps are not looked at."""

    # Tables
    stored_content: int = 64 << 20
    """Bytes of the largest content that a pipeline decodes."""

    stored_nesting: int = 64
    """Containers inside each other in a content that a pipeline stores."""

    stored_elements: int = 1_000_000
    """Elements of a content that a pipeline stores, in all its containers; an array is one."""

    stored_text: int = 4 << 20
    """Characters of the JSON text of a content that a pipeline stores."""

    stored_name: int = 4096
    """Bytes of the name that a recorder knew an agent by."""

    stored_seconds: float = 10.0
    """Seconds that a pipeline works on the content of one notification."""

    stored_refused: int = 1_000_000
    """Rows of one batch that a pipeline files in quarantine; more are counted by their reason."""

    stored_batch: int = 128 << 20
    """Bytes of decoded rows that a pipeline has in memory before it files them."""


current = Limits()
"""What holds in this process now; replaced whole with `use`."""


def use(limits: Limits) -> Limits:
    """Let what begins in this process from now on go by other limits; returns those of before."""
    global current
    before, current = current, limits
    return before


def changed(limits: Limits, table: Mapping[str, Any], where: str) -> Limits:
    """Limits with some values replaced, as a settings file or a test names them.

    Args:
        limits: what holds for everything that the table does not name.
        table: values by the names of `Limits`.
        where: where the table stands, for messages.

    Raises:
        ConfigError: for an unknown name, with the nearest one, or a value of another kind or below 0.
    """
    kinds: dict[str, type[Any]] = {field.name: type(getattr(limits, field.name)) for field in fields(Limits)}
    values: dict[str, Any] = {}
    for name, value in table.items():
        if (kind := kinds.get(name)) is None:
            (near,) = get_close_matches(name, kinds, 1, 0.0)
            raise ConfigError(f"{where}: {name} is no limit; did you mean {near}?")
        if isinstance(value, bool) or not isinstance(value, (kind, int)) or not value >= 0:
            expected = f"expected {kind.__name__} of 0 or more"
            raise ConfigError(f"{where}: {name} = {value!r} cannot be used; {expected}")
        values[name] = kind(value)
    return replace(limits, **values)
