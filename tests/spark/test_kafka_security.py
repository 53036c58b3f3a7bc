"""A job over a broker that asks who is there: what connects, what one line says of what does not, and no secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pyspark.sql import SparkSession

from bindery.jobs.sources.kafka import SourceUnavailable
from bindery.router.errors import BinderyError, InvalidInput
from tests.servers.certificates import Authority
from tests.servers.kafka import LOGIN, PASSWORD, USER, Broker
from tests.spark.installation import Installation

STORE_PASSWORD: Final = "hunter2 of the store"
WRONG_PASSWORD: Final = "hunter2 of nobody"
Options = dict[str, Any]


def login(mechanism: str, password: str = PASSWORD) -> str:
    return f'{LOGIN[mechanism]} username="{USER}" password="{password}";'


class Secured:
    """Jobs over the listeners of a broker that are secured, into the queue "all"."""

    def __init__(self, installation: Installation, broker: Broker, foreign: Authority) -> None:
        self.installation = installation
        self.broker = broker
        assert broker.authority is not None
        self.authority = broker.authority
        self.foreign = foreign

    def text(self, topic: str, options: Mapping[str, object], address: str = "") -> str:
        source = {"format": "kafka", "bootstrap_servers": address or self.broker.sasl_ssl, "topics": topic}
        document = {"stream": "s", "trigger": "available-now", "source": source | {"options": dict(options)}}
        return yaml.safe_dump(document | {"message": {"exchange": "'amq.topic'"}})

    def trusting(self, authority: Authority | None = None) -> Options:
        path = str((authority or self.authority).certificate)
        return {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": path}

    def user(self, mechanism: str = "SCRAM-SHA-256", named: str = "LOGIN") -> Options:
        return {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.jaas.config": {"secret": named},
        }

    def routes(self, options: Options, address: str = "") -> None:
        """Three records of a new topic arrive."""
        topic = self.broker.topic()
        self.broker.produce(topic, [{"value": b"%d" % number} for number in range(3)])
        (report,) = self.installation.route(self.text(topic, options, address))
        assert (report.records, report.copies) == (3, 3)
        assert sorted(row["body"] for row in self.installation.rows("all")) == [b"0", b"1", b"2"]

    def fails(self, topic: str, options: Options, address: str = "", late: Callable[[], None] | None = None) -> Any:
        """The error of a job that changes nothing; `late` is done when the source has been looked at."""
        with pytest.raises(BinderyError) as caught:
            job = self.installation.job(self.text(topic, options, address))
            if late is not None:
                late()
            job.run()
        error = caught.value
        assert "\n" not in f"{error.message}{error.where}{error.hint}"
        assert (self.installation.counts(), self.installation.manifest()) == ({"all": 0}, [])
        assert self.installation.checkpoint.exists() == (late is not None)
        return error


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that nobody knows."""
    return Authority(tmp_path_factory.mktemp("foreign"), "foreign")


@pytest.fixture
def secured(
    installation: Installation, secured_kafka: Broker, foreign: Authority, monkeypatch: pytest.MonkeyPatch
) -> Secured:
    installation.queue("all")
    for name, value in {
        "LOGIN": login("SCRAM-SHA-256"),
        "PLAIN": login("PLAIN"),
        "WRONG": login("SCRAM-SHA-256", WRONG_PASSWORD),
        "STORE": STORE_PASSWORD,
    }.items():
        monkeypatch.setenv(f"BINDERY_SECRET_{name}", value)
    return Secured(installation, secured_kafka, foreign)


@pytest.fixture(autouse=True)
def kept_secret(
    installation: Installation, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """No file that a job has left, and nothing that Spark logs or shows in its pages, has a secret in it."""
    yield
    context = spark.sparkContext._jsc.sc()
    environment = context.statusStore().environmentInfo()
    shown = [
        *(str(pair) for pair in spark.sparkContext.getConf().getAll()),
        environment.sparkProperties().mkString(),
        environment.hadoopProperties().mkString(),
        environment.systemProperties().mkString(),
        *(_page(run) for run in _listed(spark._jsparkSession.sharedState().statusStore().executionsList())),
    ]
    (log,) = tmp_path_factory.getbasetemp().glob("spark[0-9]*/spark.log")
    files = [log, *(path for path in Path(installation.data.root).rglob("*") if path.is_file())]
    for text in (*(text.encode() for text in shown), *(path.read_bytes() for path in files)):
        for secret in (PASSWORD, "hunter2"):
            assert secret.encode() not in text


def _page(run: Any) -> str:
    """What Spark's page of a query shows."""
    return f"{run.description()} {run.details()} {run.physicalPlanDescription()} {run.modifiedConfigs().mkString()}"


def _listed(found: Any) -> list[Any]:
    return [found.apply(number) for number in range(found.size())]


def test_a_password_and_a_truststore_of_pem(secured: Secured) -> None:
    secured.routes(secured.user() | secured.trusting())


def test_a_password_in_clear_over_tls_and_a_truststore_of_java(secured: Secured) -> None:
    store = {
        "kafka.ssl.truststore.location": str(secured.authority.truststore(STORE_PASSWORD)),
        "kafka.ssl.truststore.password": {"secret": "STORE"},
    }
    secured.routes(secured.user("PLAIN", "PLAIN") | store)


def test_a_certificate_of_the_client_and_no_files(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    client = secured.authority.issue("client")
    monkeypatch.setenv("BINDERY_SECRET_KEY", client.key.read_text())
    options = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": secured.authority.certificate.read_text(),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": client.certificate.read_text(),
        "kafka.ssl.keystore.key": {"secret": "KEY"},
    }
    secured.routes(options, secured.broker.ssl)


def test_a_client_without_the_certificate_that_is_asked_for(secured: Secured) -> None:
    options = secured.trusting() | {"kafka.security.protocol": "SSL"}
    error = secured.fails(secured.broker.topic(), options, secured.broker.ssl)
    assert error.message.startswith("source.options: ") and "bad_certificate" in error.message
    assert "kafka.ssl.keystore" in error.hint


def test_a_wrong_password(secured: Secured) -> None:
    error = secured.fails(secured.broker.topic(), secured.user(named="WRONG") | secured.trusting())
    assert isinstance(error, InvalidInput)
    assert error.message == (
        "source.options: the cluster refuses the connection: Authentication failed during authentication due to "
        "invalid credentials with SASL mechanism SCRAM-SHA-256"
    )
    assert "kafka.sasl.jaas.config" in error.hint


def test_an_authority_that_is_not_trusted(secured: Secured) -> None:
    topic = secured.broker.topic()
    for trusted in (secured.trusting(secured.foreign), {}):
        error = secured.fails(topic, secured.user() | trusted)
        assert isinstance(error, InvalidInput)
        assert error.message.startswith("source.options: SSL handshake failed: ")
        assert error.hint.startswith("kafka.ssl.truststore.location or .certificates says whose certificates are trust")


def test_a_listener_of_another_protocol(secured: Secured) -> None:
    options = {"kafka.default.api.timeout.ms": 4000, "kafka.request.timeout.ms": 2000}
    error = secured.fails(secured.broker.topic(), options)
    assert isinstance(error, SourceUnavailable)
    assert error.message.startswith("no broker answers: ")
    assert error.where == secured.broker.sasl_ssl
    assert "kafka.security.protocol" in error.hint


def test_a_topic_that_is_not_there(secured: Secured) -> None:
    error = secured.fails("nowhere", secured.user() | secured.trusting())
    assert error.message == f"source.topics: there is no topic 'nowhere' at {secured.broker.sasl_ssl}"


@pytest.mark.parametrize(
    "secret",
    # the password alone, or not quoted, or closed too early: Kafka would tell a part of it
    ["hunter2 is all of it;", "hunter2 required;", login("PLAIN", 'x"hunter2')],
)
def test_a_login_that_is_none(secured: Secured, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv("BINDERY_SECRET_LOGIN", secret)
    error = secured.fails(secured.broker.topic(), secured.user("PLAIN") | secured.trusting())
    assert error.message == "source.options: kafka.sasl.jaas.config is not in the form of a login"
    assert "ScramLoginModule required username=" in error.hint


def test_stores_that_cannot_be_read(secured: Secured) -> None:
    topic = secured.broker.topic()
    store = str(secured.foreign.truststore("another"))
    pem = str(secured.authority.certificate)
    for location, said in (
        ("/nowhere.jks", "/nowhere.jks of type JKS: NoSuchFileException"),
        (pem, f"{pem} of type JKS: Invalid keystore format"),
        (store, f"{store} of type JKS: Password verification failed"),
    ):
        options = {"kafka.ssl.truststore.location": location, "kafka.ssl.truststore.password": {"secret": "STORE"}}
        error = secured.fails(topic, secured.user() | options)
        assert error.message == f"source.options: Failed to load SSL keystore {said}"
        assert "says PEM or PKCS12" in error.hint


def test_what_is_refused_while_the_job_runs(secured: Secured) -> None:
    topic = secured.broker.topic()
    secured.broker.produce(topic, [{"value": b"1"}])
    secured.broker.restrict(topic, "describe")
    error = secured.fails(topic, secured.user() | secured.trusting(), late=lambda: None)
    assert isinstance(error, SourceUnavailable)
    assert error.message == f"the cluster refuses the connection: Not authorized to access topics: [{topic}]"
    assert error.where == secured.broker.sasl_ssl
    assert "Describe and Read" in error.hint


def test_a_truststore_that_goes_away(secured: Secured, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(secured.authority.certificate.read_bytes())
    options = secured.user() | secured.trusting() | {"kafka.ssl.truststore.location": str(trusted)}
    error = secured.fails(secured.broker.topic(), options, late=trusted.unlink)
    assert error.message == "no client of the cluster can be made: Spark's log says why"
    assert "on every node" in error.hint
