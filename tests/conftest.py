"""Fixtures of the whole suite: one Spark session, shared by every test that is marked `spark`."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

    from tests.lanes import Lanes
    from tests.servers.kafka import Broker

_FOLDER = Path(__file__).parent

pytest_plugins = ["tests.browser", "tests.servers.azure", "tests.servers.s3"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("bindery", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bindery")

#: What JVMs of tests begin with, also those of programs that tests start: most do little, and end before code that was
#: optimized further, or collected by more threads, would have paid.
_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
for _name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(_name, _JVM)

#: How the reasons begin for which a test may skip: what is not everywhere and no extra installs.
EXPECTED_SKIPS = (
    "no rabbitmqadmin v1",
    "no rabbitmqadmin v2",
    "no recording at",
    "no Go",
    "no openssl",
    "no rabbitmq-server",
    "no chromium",
    "neither docker compose nor go is installed",
    "no Docker engine that may be used",
    "the loader cannot be built",
    "mounting is not permitted here",
    "the kernel counts no transfers by process here",
    "no Maven",
    "no npm",
    "no promtool",
)
_UNEXPECTED_SKIPS: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note each skip for a reason that is not on the list."""
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(EXPECTED_SKIPS):
            _UNEXPECTED_SKIPS.append(f"{report.nodeid}: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A test that skips unexpectedly tests nothing: in CI the run has failed."""
    if _UNEXPECTED_SKIPS and os.environ.get("CI"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever stands in tests/spark needs the session: `-m "not spark"` runs without Java.

    Tests that are `local_only` do not run on an object store; `nightly` ones, and `long` ones on an object store, run
    where the night is asked for.
    """
    left_out = [item for item in items if item.get_closest_marker("local_only") and _is_remote(item)]
    if not os.environ.get("BINDERY_NIGHTLY"):
        left_out += [item for item in items if item.get_closest_marker("nightly")]
        left_out += [item for item in items if item.get_closest_marker("long") and _is_remote(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    for item in items:
        if _FOLDER / "spark" in item.path.parents:
            item.add_marker("spark")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    """What a test has printed or logged may hold half surrogates, which do not go from one process to another."""
    return _encodable((yield))


def _encodable(data: Any) -> Any:
    match data:
        case str():
            return data.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {key: _encodable(value) for key, value in data.items()}
        case list() | tuple():
            return type(data)(map(_encodable, data))
    return data


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    """What runs where, with several processes."""
    from tests.lanes import Lanes

    return Lanes(config, log)


def _is_remote(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "s3" in callspec.params.values()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skips that nobody expects; after a long run, how many examples each random test has seen."""
    for skip in _UNEXPECTED_SKIPS:
        terminalreporter.write_line(f"UNEXPECTED SKIP {skip}")
    if examples.FACTOR != 1 and examples.RAN:
        terminalreporter.write_sep("=", f"examples, {examples.FACTOR:g} times the usual number")
        for name, count in sorted(examples.RAN.items()):
            terminalreporter.write_line(f"{count:>9,}  {name}")
        terminalreporter.write_line(f"{examples.RAN.total():>9,}  in all")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the run; what it logs goes to a file of the run's temporary folder."""
    from bindery.jobs.session import build_session

    folder = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(folder / "local"))
    session = build_session(
        "tests",
        master="local[2]",
        settings={
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            **_kafka_jars(),
        },
        log_file=folder / "spark.log",
    )
    yield session
    session.stop()


def _kafka_jars() -> dict[str, str]:
    """The jars by which the session reads Kafka; without them only the tests that need a broker fail, or skip."""
    from tests.servers import kafka, maven

    with suppress(maven.MavenFailed):
        return {"spark.jars": ",".join(kafka.spark_jars())} if maven.is_here() else {}
    return {}


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The Kafka broker of the run; each test makes topics of its own."""
    from tests.servers.kafka import Broker

    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that also listens where clients need a password or a certificate."""
    from tests.servers.certificates import Authority
    from tests.servers.kafka import Broker

    folder = tmp_path_factory.mktemp("secured-kafka")
    with Broker(folder / "broker", authority=Authority(folder / "tls")) as broker:
        yield broker
