from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pzc.discovery.site import parse_peers
from pzc.protocol.errors import ConfigError

names = st.text("abé-_. /1", min_size=1, max_size=8).map(str.strip).filter(bool)
endpoints = st.sampled_from(
    ["tcp://10.0.0.7:5555", "ipc:///run/a=b", "ipc://@lab", "inproc://x y", "tcp://[::1]:5"]
)


@given(st.dictionaries(names, endpoints), st.sampled_from([",", " , ", ",,"]), st.sampled_from(["=", " = "]))
def test_peers_are_read_as_they_were_written(peers: dict[str, str], comma: str, equals: str) -> None:
    assert parse_peers(comma.join(f"{name}{equals}{endpoint}" for name, endpoint in peers.items())) == peers


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_no_entry_is_no_peer(text: str) -> None:
    assert parse_peers(text) == {}


@pytest.mark.parametrize(
    "entry",
    [
        "psu",
        "psu=",
        "=tcp://a:1",
        "psu=a:1",
        "psu==tcp://a:1",
        "psu=http://a:1",
        "psu=tcp://",
        "tcp://a:1",
        "tcp://a:1=tcp://b:1",
    ],
)
def test_a_malformed_entry_is_told_with_an_example(entry: str) -> None:
    with pytest.raises(ConfigError, match="is not name=endpoint, such as psu=tcp://") as caught:
        parse_peers(f"camera=tcp://a:1,{entry}")
    assert repr(entry) in str(caught.value)


def test_a_name_given_twice_is_told_with_both_endpoints() -> None:
    with pytest.raises(ConfigError, match="'psu' twice: tcp://a:1 and tcp://b:1"):
        parse_peers("psu=tcp://a:1,psu=tcp://b:1")
