"""``pzc info``, ``get``, ``set``, ``call`` and ``ping`` against a real server, without and with a key."""

from __future__ import annotations

import json

import zmq

from tests.contract.rigs.console import Console


def test_what_was_set_is_read_back(either: Console) -> None:
    assert either("set", "psu.voltage", "3.3").status == 0
    assert either("get", "psu.voltage").out == "3.3\n"


def test_a_negative_number_is_no_option(bench: Console) -> None:
    assert bench("set", "psu.limit", "-1e-3").status == 0
    assert bench("get", "psu.limit").out == "-0.001\n"
    bench("set", "psu.limit", "30.0")


def test_an_endpoint_does_as_well_as_a_name(bench: Console) -> None:
    assert bench("get", f"{bench.endpoint}.resource", "--json").json == "SIM"


def test_a_dictionary_is_printed_whole(bench: Console) -> None:
    assert bench("get", "psu.settings", "--json").json == {"slew": 0.5, "label": "bench"}


def test_a_list_is_printed_whole(bench: Console) -> None:
    assert bench("get", "psu.history").out == "[1, 2]\n"


def test_a_dictionary_of_channels_tells_how_each_is_reached(console: Console) -> None:
    process = console.start("serve", "bench:Rack", "--json")
    endpoint = json.loads(process.line())["rep_endpoint"]
    shown = console("get", f"{endpoint}.supplies", "--json").json
    assert shown["count"] == 1
    assert shown["left"].startswith("<supplies['left']: Supply at ")


def test_arguments_arrive_as_python_values(either: Console) -> None:
    outcome = either("call", "psu.arguments", "1", "-2.5", "on", "[3]", "--json", "k=True", "t='4'")
    assert outcome.json == [[1, -2.5, "on", [3]], {"k": True, "t": "4"}]


def test_an_array_is_printed_with_type_and_shape(either: Console) -> None:
    assert either("call", "psu.trace").out == "int16 (3,)\n[0 1 2]\n"


def test_an_array_as_json(bench: Console) -> None:
    assert bench("call", "psu.trace", "2", "--json").json == {
        "type": "ndarray", "dtype": "int16", "shape": [2], "values": [0, 1],
    }  # fmt: skip


def test_bytes_as_json(bench: Console) -> None:
    assert bench("call", "psu.raw", "--json").json == {"type": "bytes", "size": 2, "base64": "AP8="}


def test_what_json_lacks_arrives_all_the_same(either: Console) -> None:
    assert either("call", "psu.odd", "--json").json == [
        "NaN",
        0.5,
        {"type": "exception", "class": "ValueError", "text": "kept"},
        {"type": "mapping", "items": [[1, "one"]]},
    ]


def test_text_cannot_command_the_terminal(bench: Console) -> None:
    assert bench("call", "psu.text").out == "two\nlines \\x1b[31m\n"


def test_none_is_silent_unless_as_json(bench: Console) -> None:
    assert bench("call", "psu.nothing").out == ""
    assert bench("call", "psu.nothing", "--json").json is None


def test_the_result_of_a_future_is_waited_for(either: Console) -> None:
    assert either("call", "psu.later").out == "42\n"


def test_a_future_that_never_comes_is_a_timeout(bench: Console) -> None:
    outcome = bench("call", "psu.never", "--timeout", "0.5")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == "pzc: CallTimeout: the call runs, but had no result within 0.5 s\n"


def test_a_remote_error_is_one_line(either: Console) -> None:
    outcome = either("set", "psu.voltage", "99")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.endswith("RangeError: 99 V is outside 0..30 V\n")
    assert outcome.err.count("\n") == 1


def test_an_error_of_several_lines_is_one_line_and_commands_no_terminal(bench: Console) -> None:
    outcome = bench("call", "psu.scream")
    assert outcome.err.endswith("RangeError: two\\nlines \\x1b[2J\n")
    assert outcome.err.count("\n") == 1


def test_debug_shows_the_remote_traceback(bench: Console) -> None:
    outcome = bench("set", "psu.voltage", "99", "--debug")
    assert outcome.status == 1
    assert "Remote traceback (tcp://127.0.0.1:" in outcome.err
    assert 'bench.py", line' in outcome.err


def test_a_remote_broken_pipe_is_no_broken_pipe_of_ours(bench: Console) -> None:
    outcome = bench("call", "psu.pipe")
    assert (outcome.status, outcome.err) == (1, "pzc: BrokenPipeError: of the instrument\n")


def test_a_method_that_exits_ends_neither_the_server_nor_its_lane(bench: Console) -> None:
    outcome = bench("call", "psu.leave")
    assert (outcome.status, outcome.err) == (1, "pzc: RemoteError: builtins.SystemExit: 0\n")
    assert bench("get", "psu.resource", "--timeout", "10").out == "SIM\n"


def test_setting_a_misspelt_attribute_is_an_error(bench: Console) -> None:
    outcome = bench("set", "psu.volage", "3")
    assert outcome.status == 1
    assert "did you mean voltage?" in outcome.err
    assert "volage" not in bench("info", "psu", "--json").json["members"]


def test_a_private_member_is_refused(bench: Console) -> None:
    outcome = bench("get", "psu._voltage")
    assert outcome.status == 1
    assert outcome.err.startswith("pzc: MemberRefused: ")


def test_the_wrong_command_for_a_member_names_the_right_one(bench: Console) -> None:
    assert "pzc call psu.trace" in bench("get", "psu.trace").err
    assert "pzc watch psu/changed" in bench("get", "psu.changed").err
    outcome = bench("call", "psu.voltage")
    assert outcome.status == 2
    assert "pzc get psu.voltage" in outcome.err


def test_info_tells_agent_and_members(either: Console) -> None:
    told = either("info", "psu", "--json").json
    assert (told["name"], told["serves"], told["signed"]) == (
        "psu",
        "Supply",
        "PZC_KEY" in either.environment,
    )
    assert told["members"]["trace"]["signature"] == "(count=3)"
    assert told["members"]["changed"]["kind"] == "signal"


def test_info_is_readable(bench: Console) -> None:
    lines = bench("info", "psu").out.splitlines()
    assert any(line.split() == ["serves", "Supply"] for line in lines)
    assert any(
        line.split() == ["voltage", "property", "Programmed", "voltage", "in", "volts."] for line in lines
    )


def test_ping_measures_as_often_as_asked(bench: Console) -> None:
    outcome = bench("ping", "psu", "--count", "3")
    assert outcome.status == 0
    assert outcome.out.count("'pong' from tcp://127.0.0.1:") == 3


def test_ping_as_json(bench: Console) -> None:
    told = bench("ping", "psu", "--count", "2", "--json").json
    assert len(told["round_trips_ms"]) == 2
    assert 0 < told["min_ms"] <= told["median_ms"] <= told["max_ms"]


def test_an_unknown_name_says_which_are_known(bench: Console) -> None:
    outcome = bench("get", "camera.exposure", "--timeout", "0.2")
    assert outcome.status == 1
    assert outcome.err.startswith("pzc: UnknownName: no agent is named 'camera'; known names: psu;")


def test_another_key_is_a_signature_error(bench: Console) -> None:
    before = dict(bench.environment)
    bench.environment["PZC_KEY"] = "the key of another laboratory"
    try:
        outcome = bench("get", "psu.voltage", "--timeout", "10")
    finally:
        bench.environment = before
    assert outcome.status == 1
    assert outcome.err.startswith("pzc: SignatureError: ")
    assert "keys differ" in outcome.err


def test_nobody_there_is_an_error_in_time(console: Console) -> None:
    with zmq.Context() as context, context.socket(zmq.STREAM) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
    outcome = console("get", f"tcp://127.0.0.1:{port}.voltage", "--timeout", "0.3")
    assert outcome.status == 1
    assert outcome.err.startswith(f"pzc: PeerLost: nothing listens at tcp://127.0.0.1:{port}: ")


def test_a_target_without_member_is_status_2(console: Console) -> None:
    outcome = console("get", "tcp://127.0.0.1:5555")
    assert (outcome.status, outcome.out) == (2, "")
    assert "is not N.MEMBER" in outcome.err


def test_a_misspelt_variable_is_told_once(console: Console) -> None:
    console.environment["PZC_SRE"] = "json"
    _, endpoint = console.serve()
    assert console("ping", endpoint, "--count", "1").err.count("did you mean PZC_SER?") == 1


def test_a_full_disk_is_an_error(bench: Console) -> None:
    outcome = bench.start("get", "psu.resource", stdout="/dev/full").finish()
    assert (outcome.status, outcome.err) == (1, "pzc: OSError: [Errno 28] No space left on device\n")


def test_info_and_ping_are_answered_while_a_call_runs(console: Console) -> None:
    process, endpoint = console.serve("--name", "psu")
    console.start("call", f"{endpoint}.wait")
    assert process.line() == "waiting\n"
    assert console("ping", endpoint, "--count", "1").status == 0
    outcome = console("info", endpoint)
    assert "\nname             psu\n" in outcome.out
    assert (outcome.status, outcome.err) == (0, "")
