"""The times and bounds that a lab may change, in one frozen object: ``limits.current``.

The table ``[limits]`` of ``pzc.toml`` changes values; tests replace them with `pzc.testing.Timings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec

from .toml import made

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Bytes = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times in seconds, sizes in bytes, other bounds in pieces."""

    # Signs of life
    silence: Seconds = 4.0  # without a sign of life after which a holder, reader or publisher is gone
    publisher_retry: Seconds = 1.0  # until a publisher that did not answer is asked again
    link_look: Seconds = 1.0  # between two looks at the signs of life of all links, which are sent then

    # Calls
    call_recovery: Seconds = 3.0  # after the loss of a connection in which a call asks for its result
    result_kept: Seconds = 60.0  # that a result is kept
    result_wait: Seconds = 20.0  # after which a request for a running result is answered 'pending'
    running_futures: Count = 10_000  # futures of one server that may run for one key
    streams: Count = 1000  # open streams of one server for one key
    handles: Count = 10_000  # objects returned by methods of one server of which one key has handles

    # Connections
    connections: Count = 512  # streams of one agent, half of them of one key; more are turned away
    connection_idle: Seconds = 30.0  # until an idle connection closes, but for the last one to a used peer
    strangers: Count = 512  # TCP connections of a listening socket; a new one beyond them is hung up
    handshake: Seconds = 5.0  # in which a TCP peer must say that it speaks ZeroMQ
    frame_bytes: Bytes = 256 << 20  # of the largest frame that is taken from, or sent to, a TCP peer
    unsent_per_key: Bytes = 1 << 30  # of answers over TCP that one key has not taken, and one beyond for each
    high_water_mark: Count = 10_000  # messages that a ZeroMQ socket holds for a slow peer

    # Notifications
    topic_beat: Seconds = 1.0  # between two messages with the last number of every topic
    retained_bytes: Bytes = 1 << 16  # of the largest encoded content that is kept for later subscribers
    links: Count = 500  # of one publisher for one key
    link_keep: Seconds = 300.0  # until the link of a silent reader ends; its losses are counted until then

    # Mailboxes
    mail_block: Seconds = 30.0  # that a publication waits for room in mailboxes with when_full="block"
    mail_hold: Seconds = 1.0  # that a publisher may hold a poll
    mail_patience: Seconds = 2.0  # after which a due answer of a mailbox is not expected any more
    mail_grace: Seconds = 30.0  # that a mailbox stays after the time for which it is kept
    mailboxes: Count = 500  # of one publisher for one key
    mail_bytes_per_key: Bytes = 16 << 30  # in all mailboxes of one key at one publisher, shared among them

    # Recorders and tables
    maintenance_pause: Seconds = 30.0  # between two looks of a recorder at what to compact or remove
    covered_grace: Seconds = 3600.0  # that segments stay beside the compacted one that stands for them
    stored_content: Bytes = 64 << 20  # of the largest content that a pipeline decodes
    stored_elements: Count = 1_000_000  # of a stored content, in all its containers; an array is one
    stored_text: Count = 4 << 20  # characters of the JSON text of a stored content
    stored_seconds: Seconds = 10.0  # that a pipeline works on the content of one notification
    stored_refused: Count = 1_000_000  # rows of one batch in quarantine; more are counted by reason
    stored_batch: Bytes = 128 << 20  # of decoded rows that a pipeline holds before it files them


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
    """Limits of which a table replaces some; ``where`` says where it stands.

    Raises:
        ConfigError: for a name that is not known, with the nearest one, and for a value that is no number or
            below 0.
    """
    gone = dict.fromkeys(_CONSTANTS.split(), "is a constant now and cannot be set: leave it out")
    return made(Limits, table, where, limits, cast("dict[str, str]", gone))
