"""The times and bounds that a lab may change, in one frozen object: ``limits.current``.

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

    publisher_retry: float = 1.0
    """Seconds until a publisher that did not answer is asked again."""

    link_look: float = 1.0
    """Seconds between two looks at the signs of life of all links, which are sent then as well."""

    # Calls
    call_recovery: float = 3.0
    """Seconds after the loss of its connection within which a call asks a silent peer for its result."""

    result_kept: float = 60.0
    """Seconds that a result is kept."""

    result_wait: float = 20.0
    """Seconds after which a request for a running result is answered 'pending'."""

    running_futures: int = 10_000
    """Futures of one server that may be running for one key."""

    streams: int = 1000
    """Open streams of one server that the holders of one key have."""

    handles: int = 10_000
    """Objects returned by methods of one server that the holders of one key have handles of."""

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

    high_water_mark: int = 10_000
    """Messages that a ZeroMQ socket holds for one slow peer before it drops or refuses more."""

    # Notifications
    topic_beat: float = 1.0
    """Seconds between two messages that tell the last number of every topic."""

    retained_bytes: int = 1 << 16
    """Bytes of the largest encoded content that is kept for later subscribers."""

    links: int = 500
    """Links of one publisher that the holders of one key have."""

    link_keep: float = 300.0
    """Seconds after which the link of a reader that was silent ends; until then what it loses is counted."""

    # Mailboxes
    mail_block: float = 30.0
    """Seconds that a publication waits for room in mailboxes with ``when_full="block"``."""

    mail_hold: float = 1.0
    """Seconds that a publisher may hold a poll."""

    mail_patience: float = 2.0
    """Seconds after which an answer of a mailbox that is due is not expected any more."""

    mail_grace: float = 30.0
    """Seconds that a mailbox is left behind the time for which it is kept."""

    mailboxes: int = 500
    """Mailboxes of one publisher that the holders of one key have."""

    mail_bytes_per_key: int = 16 << 30
    """Bytes that all mailboxes of one key hold at one publisher; shared among them."""

    # Recorders and tables
    maintenance_pause: float = 30.0
    """Seconds between two looks of a recorder at what is to be compacted or removed."""

    covered_grace: float = 3600.0
    """Seconds for which segments stay beside the compacted one that stands for them."""

    stored_content: int = 64 << 20
    """Bytes of the largest content that a pipeline decodes."""

    stored_elements: int = 1_000_000
    """Elements of a content that a pipeline stores, in all its containers; an array is one."""

    stored_text: int = 4 << 20
    """Characters of the JSON text of a content that a pipeline stores."""

    stored_seconds: float = 10.0
    """Seconds that a pipeline works on the content of one notification."""

    stored_refused: int = 1_000_000
    """Rows of one batch that a pipeline files in quarantine; more are counted by their reason."""

    stored_batch: int = 128 << 20
    """Bytes of decoded rows that a pipeline has in memory before it files them."""


_CONSTANTS = """
alive_timeout announced_topics answers_behind audit_waiting batch_calls burst_gathering burst_pause
burst_publications call_look callback_turn compact_age completion deferred_calls
described_paths early_notifications entries entries_per_key equal_hashes farewell filters free_bytes
greeting gui_turn gui_waiting hash_unchecked heartbeats_wait interests_per_key io_stand_by io_take_over
known_array_headers known_series lane_look lane_waiting lane_waiting_per_key links_per_key lock_waiting
lock_waiting_per_key mail_adoption mail_gathering mail_subscriptions mailboxes_per_key
marks marks_per_key name_kept names_held nesting nonces_per_key poll_shortest process_start processes
processes_per_key questions questions_per_key quick_call quick_proofs range_items registry_bytes
registry_bytes_per_key result_bytes results_kept scarcity_pause send_look send_patience send_tail
send_waiting senders_per_key sessions shared_blocks shared_bytes sign_of_life signatures_per_key stalled
stalled_callbacks stored_name stored_nesting topic_beat_topics unfolded way_lost
"""
"""Names that were limits once: each is a constant beside the code that goes by it."""

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
        ConfigError: for a constant, for an unknown name, with the nearest one, or for a value of another kind
            or below 0.
    """
    kinds: dict[str, type[Any]] = {field.name: type(getattr(limits, field.name)) for field in fields(Limits)}
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name in _CONSTANTS.split():
            raise ConfigError(f"{where}: {name} is a constant now and cannot be set: leave it out")
        if (kind := kinds.get(name)) is None:
            (near,) = get_close_matches(name, kinds, 1, 0.0)
            raise ConfigError(f"{where}: {name} is no limit; did you mean {near}?")
        if isinstance(value, bool) or not isinstance(value, (kind, int)) or not value >= 0:
            expected = f"expected {kind.__name__} of 0 or more"
            raise ConfigError(f"{where}: {name} = {value!r} cannot be used; {expected}")
        values[name] = kind(value)
    return replace(limits, **values)
