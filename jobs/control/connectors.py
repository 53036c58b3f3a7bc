"""What a Spark session needs beside Spark, by what a job reads and where the data directory is.

Credentials never become settings, which Spark shows: Hadoop takes them from the environment of each process, by
the variables that Bindery's own side of the store reads too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bindery.jobs.control.config import FileSource, JobFile
from bindery.store.paths import DataDir
from bindery.store.places import normalised

#: The jar that belongs to the delta-spark release of pyproject.toml and its Spark and Scala versions.
DELTA_PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
#: Jars that read Kafka, by path, separated by commas; with it nothing is fetched for that.
KAFKA_JARS: Final = "BINDERY_KAFKA_JARS"


@dataclass(frozen=True, slots=True)
class Connector:
    """Packages of classes that Spark does not bring, and the packages that are not to come with them.

    `jar` is a pattern of file names that tells whether an installation of Spark has them; `named_by` a variable
    of the environment that may name jars to use instead.
    """

    packages: tuple[str, ...]
    jar: str
    excludes: tuple[str, ...] = ()
    named_by: str = ""

    def is_in(self, folder: Path) -> bool:
        """Whether a folder has the jars, under their own names or Ivy's, which begin with the group."""
        return any(any(folder.glob(pattern)) for pattern in (self.jar, f"*_{self.jar}"))


DELTA: Final = Connector((DELTA_PACKAGE,), "delta-spark_*.jar")
KAFKA: Final = Connector(
    ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",), "spark-sql-kafka-*.jar", named_by=KAFKA_JARS
)
#: Hadoop's S3 file system of the release that Spark brings, and what it uses of the AWS SDK instead of all of the SDK
#: in one jar of 680 MB.
S3A: Final = Connector(
    (
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.awssdk:s3:2.35.4",
        "software.amazon.awssdk:s3-transfer-manager:2.35.4",
        "software.amazon.awssdk:sts:2.35.4",
    ),
    "hadoop-aws-*.jar",
    excludes=("software.amazon.awssdk:bundle",),
)
#: Where credentials are taken from: each counts where the environment names what it reads, the last one always.
_PROVIDERS: Final = (
    ("AWS_ACCESS_KEY_ID", "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"),
    (
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
    ),
    ("AWS_PROFILE", "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"),
    ("", "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"),
)


def connectors(addresses: Iterable[str], source: str = "") -> tuple[Connector, ...]:
    """What a job needs that reads a source of that format, and reads and writes at those paths and URLs."""
    found = (
        (DELTA, source in ("delta", "queue")),
        (KAFKA, source == "kafka"),
        (S3A, any(normalised(address).startswith("s3://") for address in addresses)),
    )
    return tuple(connector for connector, wanted in found if wanted)


def connectors_of(file: JobFile, data: DataDir) -> tuple[Connector, ...]:
    """What a job needs."""
    source = file.job.source
    return connectors((data.root, source.path if isinstance(source, FileSource) else ""), source.format)


def jar_settings(wanted: Iterable[Connector], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings of Spark that bring those classes; they count in a session that starts its own JVM."""
    packages: list[str] = []
    excludes: list[str] = []
    jars: list[str] = []
    for connector in wanted:
        named = environment.get(connector.named_by, "") if connector.named_by else ""
        if named:
            jars.append(named)
        else:
            packages += [package for package in connector.packages if package not in packages]
            excludes += connector.excludes
    found = {"spark.jars.packages": packages, "spark.jars.excludes": excludes, "spark.jars": jars}
    return {name: ",".join(values) for name, values in found.items() if values}


def place_settings(wanted: Iterable[Connector], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings by which Spark finds object stores: what the environment says of endpoint, region and addresses."""
    if S3A not in wanted:
        return {}
    found = {
        "fs.s3a.aws.credentials.provider": ",".join(
            provider for name, provider in _PROVIDERS if not name or environment.get(name)
        ),
        "fs.s3a.endpoint.region": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1",
    }
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        virtual = environment.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() in ("1", "true", "yes", "on")
        found |= {
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.path.style.access": "false" if virtual else "true",
            "fs.s3a.connection.ssl.enabled": "false" if endpoint.startswith("http://") else "true",
        }
    return {f"spark.hadoop.{name}": value for name, value in found.items()}
