"""Unknown: what to tell somebody whose name was not found."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ...discovery.hidden import BIND
from ...discovery.names import Target
from ...discovery.site import GROUP, PORT, Site
from ...protocol.errors import UnknownName
from ...transport import endpoints
from .discovering import Participant

_SHOWN = 8
_REASONS = {
    "unsigned": "without a signature: set their PZC_KEY, too",
    "foreign_key": "signed with a key that this process does not have: PZC_KEY differs",
    "forged": "with a wrong signature",
    "version": "of another version",
    "malformed": "that cannot be read",
    "role": "signed with the key of an observer: to announce takes operator",
}


def unknown_name(
    target: str,
    places: Sequence[Target],
    participants: Sequence[Participant],
    static: Sequence[str],
    seconds: float,
    why_not: str,
) -> UnknownName:
    """The error for a name that is nowhere.

    Args:
        target: as the user wrote it.
        places: where it was looked for.
        participants: what was heard; empty when discovery is not used.
        static: names of ``PZC_PEERS``.
        seconds: for how long.
        why_not: why nothing was heard; empty when discovery was used.
    """
    known = f"known names: {', '.join(sorted(static))}; " if static else ""
    if not participants:
        names = known or "no names are known; "
        return UnknownName(
            f"no agent is named {target!r}; {names}{why_not}; {_instead(target)}.{_nearest([target], static)}"
        )
    looked = ", ".join(
        f"@{place.partition}@{place.name}" if place.partition else place.name for place in places
    )
    heard = " ".join(filter(None, (_heard(each, own=each is participants[0]) for each in participants)))
    near = _near(places, participants) or _nearest([target], static)
    hidden = {name: host for each in participants for name, host in each.statistics()["hidden"].items()}
    there = "".join(f"{_hidden(place.name, hidden[place.name])} " for place in places if place.name in hidden)
    asked, otherwise = "Is it running, with the same PZC_PARTITION and PZC_KEY? ", f"; or {_instead(target)}"
    if near:
        asked = otherwise = ""
    return UnknownName(
        f"no agent is named {target!r}; {there}{known}nobody answered to {looked} within "
        f"{seconds:.1f} s.{near} {heard} {asked}`pzc doctor` tells what is in the way{otherwise}"
    )


def _instead(target: str) -> str:
    if endpoint := endpoints.meant(target):
        return f"give an endpoint, such as {endpoint}"
    return f"give an endpoint, or set PZC_PEERS={target}=tcp://HOST:PORT"


def obstacles(participant: Participant) -> list[str]:
    """What keeps names from being heard here, in sentences; empty when nothing does."""
    told = participant.statistics()
    found: list[str] = []
    if told["problem"]:
        found.append(f"Nothing can be heard by multicast: {told['problem']}.")
    registry = told["registry"]
    if registry is not None and registry["state"] != "connected":
        why = registry["error"] or "it has not answered yet"
        found.append(
            f"The registry at {registry['endpoint']} is not reached ({why}); pzc registry starts one."
        )
    if registry is None and not participant.site.group:
        found.append(
            "Nothing can be heard here: multicast is switched off (PZC_DISCOVERY_IP=off), "
            "and PZC_REGISTRY is not set."
        )
    return found


def _heard(participant: Participant, own: bool) -> str:
    told, found = participant.statistics(), " ".join(obstacles(participant))
    if told["problem"] or not (told["interfaces"] or told["registry"]):
        return found
    names = sorted({entry.name for entry in participant.match("**", "agent")})
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    if not (own or found or names or told["processes"]):
        return ""  # of a partition that the name may have meant
    where = _where(participant.site)
    ways = [f"on {', '.join(each['address'] for each in told['interfaces'])}"] if told["interfaces"] else []
    if told["registry"] is not None:
        ways.append(f"from the registry at {told['registry']['endpoint']}")
    text = f"{found} Heard {' and '.join(ways)}{where}: ".lstrip()
    text += _count(told["processes"], "other process", "es")
    text += f" and {_count(len(names), 'name')} ({shown})." if names else " and no names."
    if mute := sum(not (each.complete or each.entries) for each in participant.processes()):
        text += f" {mute} of them does not tell its names: it may not have the key that is used here."
    others = told["counts"].get("other_partition", 0)
    if others and not names:
        text += f" {_count(others, 'datagram')} of other partitions."
    if skewed := told["counts"].get("skewed", 0):
        text += (
            f" {_count(skewed, 'datagram')} by a clock that is {ahead_or_behind(told['skew'])}: set it right."
        )
    for reason, count in told["refused"].items():
        if count:
            text += f" {_count(count, 'datagram')} {_REASONS.get(reason, f'refused ({reason})')}."
    return text


def ahead_or_behind(seconds: float) -> str:
    """By how much another machine's clock is ahead of this one's, for people."""
    return f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} this machine's"


def _hidden(name: str, host: str) -> str:
    where = f"on host {host}" if host else "on another host"
    return f"{name} is there, {where}, but bound to loopback, which no other machine reaches: {BIND}."


def _where(site: Site) -> str:
    usual = site.group == GROUP and site.port == PORT
    group = f"{site.group}:{site.port}" if site.group and not usual else ""
    partition = f"partition {site.partition!r}" if site.partition else ""
    told = ", ".join(filter(None, (group, partition)))
    return f" ({told})" if told else ""


def _count(count: int, what: str, more: str = "s") -> str:
    return f"{count} {what}{more if count != 1 else ''}"


def _near(places: Sequence[Target], participants: Sequence[Participant]) -> str:
    names = [entry.name for each in participants for entry in each.match("**", "agent")]
    return _nearest([place.name for place in places], names)


def _nearest(wanted: Sequence[str], names: Sequence[str]) -> str:
    near = {hit for each in wanted for hit in difflib.get_close_matches(each, names, n=2)}
    return f" Did you mean {' or '.join(sorted(near))}?" if near else ""
