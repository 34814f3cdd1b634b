"""The monitor in a process of its own, and how it is asked over HTTP."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.contract.rigs.console import Console
from tests.contract.rigs.programs import PATIENCE


def keyring(folder: Path, name: str, secret: str, role: str = "operator") -> Path:
    """A keyring file with one key."""
    path = folder / f"{name}.keyring"
    path.write_text(
        f'active = "{name}"\n[keys.{name}]\nsecret = "{secret}"\nrole = "{role}"\n', encoding="utf-8"
    )
    path.chmod(0o600)
    return path


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lab")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    paths = folder / "lab.pem", folder / "lab.key"
    paths[0].write_bytes(made.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


class Monitor:
    """``pzc monitor``, ended with its block.

    Args:
        console: starts it.
        arguments: of the command, beside ``--port 0 --json``.

    Attributes:
        address: of the page.
        users: address of each user, with the token.
        process: that it runs in.
    """

    def __init__(self, console: Console, *arguments: str) -> None:
        self.process = console.interpret("monitor", "--port", "0", "--json", "--every", "0.3", *arguments)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        told = json.loads(line)
        self.address: str = told["monitor"]
        self.users: dict[str, str] = told["users"]
        self.host = urlsplit(self.address).netloc
        self.cookie = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers and what was answered, as JSON where it is some."""
        given = {"Host": self.host, "Origin": self.address.rstrip("/"), "Content-Type": "application/json"}
        given |= {"Cookie": self.cookie} if self.cookie else {}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(
            urlsplit(self.address).hostname or "", urlsplit(self.address).port, timeout=PATIENCE
        )
        try:
            connection.request(method, path, None if body is None else json.dumps(body), given)
            answer = connection.getresponse()
            text = answer.read().decode()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, told, json.loads(text) if text.startswith("{") else text
        finally:
            connection.close()

    @contextmanager
    def page(self) -> Iterator[int]:
        """A websocket of a page; the status with which it was taken."""
        headers = {
            "Host": self.host, "Origin": self.address.rstrip("/"), "Cookie": self.cookie, "Connection": "Upgrade",
            "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }  # fmt: skip
        with closing(http.client.HTTPConnection(self.host, timeout=PATIENCE)) as connection:
            connection.request("GET", "/events", headers=headers)
            yield connection.getresponse().status

    def enter(self, name: str) -> None:
        """Open a session for a user."""
        token = self.users[name].partition("#token=")[2]
        status, headers, _ = self.ask("POST", "/login", {"token": token})
        assert status == 200
        self.cookie = headers["set-cookie"].partition(";")[0]

    def act(self, agent: str, do: str, **more: Any) -> tuple[int, Any]:
        """Do something; status and answer."""
        status, _, told = self.ask("POST", "/act", {"agent": agent, "do": do, **more})
        return status, told

    def await_agent(self, name: str) -> None:
        """Wait until it knows an agent."""
        for _ in range(200):
            if self.ask("GET", f"/panel?agent={name}")[0] == 200:
                return
        raise AssertionError(f"{name} did not come")
