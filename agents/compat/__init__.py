"""Peers that speak an older protocol: the original Pizco, PZC00.

Everything that is particular to them is here; the parts of an agent know only that a peer is not `native`.

- `pizco` answers their requests, and sends them notifications. A request enters at the REP listener. A filter
  enters at the PUB endpoint, which asks under which other names a topic is to be sent.
- `pizco_client` meets their servers, and calls them.
- `bare` hears publishers that are a PUB socket and nothing else, as an original publisher is heard.

The form of their five frames is in `protocol/original.py`, since `Protocol.format` and stored notifications
need it without an agent.
"""
