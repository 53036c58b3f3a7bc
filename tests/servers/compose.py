"""The services of docker-compose.yml under a project of their own: other name, ports, networks and volumes."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.servers.ports import free_ports
from tests.service.http import Client

PROJECT: Final = Path(__file__).parents[2]
ADMIN: Final = "admin"
PASSWORD: Final = "correct horse battery"
#: Seconds that a change may take to show.
SECONDS: Final = 180
_PORTS: Final = ("BINDERY_PORT", "BINDERY_STORE_PORT", "BINDERY_PROMETHEUS_PORT")


def engine() -> bool:
    """Whether there is a Docker engine, with `docker compose`, that this user may use."""
    if shutil.which("docker") is None:
        return False
    asked = (["docker", "info"], ["docker", "compose", "version"])
    return all(subprocess.run(words, capture_output=True, check=False, timeout=60).returncode == 0 for words in asked)


def until(look: Callable[[], Any], fine: Callable[[Any], bool]) -> Any:
    """What is seen as soon as it is fine."""
    end = time.monotonic() + SECONDS
    while not fine(found := look()):
        assert time.monotonic() < end, f"still {found}"
        time.sleep(1)
    return found


class Compose:
    """A project over a copy of the file in `folder`, with `changes` (text → text) and images of that tag."""

    def __init__(self, folder: Path, *, tag: str, changes: Mapping[str, str] | None = None) -> None:
        ports = free_ports(len(_PORTS))
        self.ports = dict(zip(_PORTS, ports, strict=True))
        self.project = f"bindery-{tag}-{secrets.token_hex(4)}"
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("BINDERY_", "COMPOSE_"))}
        self.environment = {
            **outside,
            "BINDERY_ADMIN_USER": ADMIN,
            "BINDERY_ADMIN_PASSWORD": PASSWORD,
            **{name: str(port) for name, port in self.ports.items()},
        }
        text = (PROJECT / "docker-compose.yml").read_text()
        own = {
            ":0.1.0\n": f":{tag}\n",
            "build: .\n": f"build: {PROJECT}\n",
            "context: .,": f"context: {PROJECT},",
            # other networks than those of a project that runs here
            "172.28.": "10.213.",
        }
        for before, after in {**own, **(changes or {})}.items():
            assert before in text, before
            text = text.replace(before, after)
        self.file = folder / "docker-compose.yml"
        self.file.write_text(text)

    def call(self, *words: str, given: str = "", seconds: float = SECONDS) -> str:
        """What `docker compose` prints."""
        done = subprocess.run(
            ["docker", "compose", "--project-name", self.project, "--file", str(self.file), *words],
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stderr[-2_000:]}"
        return done.stdout

    def build(self) -> None:
        """Build the images, which stay: the next build begins with them."""
        self.call("build", seconds=3_600)

    def up(self) -> None:
        """Start what does not run, and wait until everything is healthy."""
        self.call("up", "--wait", "--wait-timeout", str(SECONDS), seconds=2 * SECONDS)

    def down(self, *, forget: bool = False) -> None:
        """Remove the containers and networks, and with `forget` the volumes."""
        self.call("down", "--timeout", "20", *(["--volumes"] if forget else []))

    def run(self, service: str, *words: str, given: str = "") -> str:
        """What a command in a service's container prints."""
        return self.call("exec", "-T", service, *words, given=given)

    def client(self, user: str = ADMIN, password: str = PASSWORD) -> Client:
        """A client of the control plane, by its published port."""
        return Client(self.ports["BINDERY_PORT"], user, password)

    def arrive(self, name: str, number: int, key: str = "eu.paid") -> None:
        """A file of messages appears in `incoming`."""
        message = json.dumps({"exchange": "amq.topic", "routing_key": key}) + "\n"
        place = "cd /var/lib/bindery/incoming && cat >.draft && mv .draft " + name
        self.run("incoming", "sh", "-c", place, given=message * number)

    def produce(self, topic: str, records: str) -> None:
        """Records for Kafka, a line each: headers (name:value,…), key and value, separated by tabs."""
        options = ["--bootstrap-server", "kafka:9092", "--topic", topic, "--compression-codec", "zstd"]
        for option in ("parse.headers=true", "parse.key=true"):
            options += ["--reader-property", option]
        self.run("kafka", "kafka-console-producer", *options, given=records)

    def store_options(self) -> dict[str, str]:
        """What deltalake needs to read the object store by its published port."""
        profile = self.run("object-store", "cat", "/etc/bindery/store/credentials")
        keys = dict(line.split(" = ") for line in profile.splitlines() if " = " in line)
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.ports['BINDERY_STORE_PORT']}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": keys["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": keys["aws_secret_access_key"],
        }

    def services(self) -> list[dict[str, Any]]:
        """What `docker compose ps` says of each container."""
        return [json.loads(line) for line in self.call("ps", "--all", "--format", "json").splitlines()]
