"""One end of a contender: ``python -m benchmarks.notification_end ROLE KIND SETTING [ADDRESS]``.

ROLE is ``writer`` or ``reader``, SETTING a `Setting` as JSON. A library is imported by its own ends only.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from typing import Any

from benchmarks.children import Parent
from benchmarks.ends import SMALL, Reader, Setting, Writer
from benchmarks.jobs import quiet
from benchmarks.notification_jobs import JOBS, Payloads, Taking, copying, mark

KINDS = {
    "pzc": ("ends_pzc", "PzcWriter", "PzcReader"),
    "fan": ("ends_fan", "FanWriter", "FanReader"),
    "zmq": ("ends_zmq", "ZmqWriter", "ZmqReader"),
    "zmq_signed": ("ends_zmq", "SignedZmqWriter", "SignedZmqReader"),
    "iceoryx2": ("ends_iceoryx2", "Iceoryx2Writer", "Iceoryx2Reader"),
    "ezmsg": ("ends_ezmsg", "EzmsgWriter", "EzmsgReader"),
    "zenoh": ("ends_zenoh", "ZenohWriter", "ZenohReader"),
    "ecal": ("ends_ecal", "EcalWriter", "EcalReader"),
}


def _end(kind: str, which: int) -> Any:
    names = KINDS[kind]
    return getattr(importlib.import_module(f"benchmarks.{names[0]}"), names[which])


def write(parent: Parent, setting: Setting, writer: Writer) -> None:
    """Do what the parent says until it ends."""
    payloads = Payloads(setting, writer.sources)
    parent.tell(address=writer.address)
    for command in parent.commands():
        job = command.pop("job")
        if job == "mark":
            writer.run(mark(writer, payloads))
            parent.tell(marked=True)
            continue
        with quiet():
            sent = writer.run(JOBS[job](writer, payloads, **command))
        parent.tell(sent=sent)


def read(parent: Parent, setting: Setting, reader: Reader) -> None:
    """Take what the parent says until it ends."""
    parent.tell(there=True)
    for command in parent.commands():
        check = command.pop("check", True)
        taking = Taking(setting.size <= SMALL, **command)
        with quiet():
            began = time.process_time_ns()
            reader.read(taking, lambda: parent.tell(ready=True))
            used = time.process_time_ns() - began
        result = taking.result()
        if check:
            reader.check()
        parent.tell(**result, used=used)
        del taking
        gc.collect()


def copy(parent: Parent, setting: Setting) -> None:
    """The floor: no library, a copy in memory."""
    parent.tell(address="")
    for command in parent.commands():
        parent.tell(value=copying(setting.size, command["count"]))


def main() -> None:
    parent = Parent()
    role, kind, text, *address = sys.argv[1:]
    try:
        setting = Setting(**json.loads(text))
        if role == "copy":
            copy(parent, setting)
            return
        end = _end(kind, 1 if role == "writer" else 2)(setting, *address)
        try:
            (write if role == "writer" else read)(parent, setting, end)
        finally:
            end.close()
    except Exception as exc:
        parent.fail(exc)


if __name__ == "__main__":
    main()
