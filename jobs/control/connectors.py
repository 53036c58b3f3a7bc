"""What a Spark session needs beside Spark and Delta, by what a job reads and where the data directory is.

Credentials never become settings, which Spark shows: Hadoop takes them from the environment of each process, by
the variables that Bindery's own side of the store reads too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

#: Hadoop's S3 file system of the release that Spark brings, and what it uses of the AWS SDK …
S3A_PACKAGES: Final = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:s3:2.35.4",
    "software.amazon.awssdk:s3-transfer-manager:2.35.4",
    "software.amazon.awssdk:sts:2.35.4",
)
#: … instead of all of the SDK in one jar of 680 MB.
S3A_EXCLUDES: Final = ("software.amazon.awssdk:bundle",)
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


@dataclass(frozen=True, slots=True)
class Connectors:
    """Packages, the packages that they are not to bring with them, and settings of Spark; `jars` name the packages' own.

    `jars` are patterns of file names, by which it is told whether an installation of Spark has them.
    """

    packages: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()


def connectors(addresses: Iterable[str]) -> Connectors:
    """What a session needs to read and write at those paths and URLs."""
    schemes = {address.partition("://")[0].lower() for address in addresses if "://" in address}
    if not schemes & {"s3", "s3a", "s3n"}:
        return Connectors()
    return Connectors(S3A_PACKAGES, S3A_EXCLUDES, s3a_settings(), ("hadoop-aws-*.jar",))


def s3a_settings(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Hadoop's settings for S3, by what the environment says of endpoint, region and style of addresses."""
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
