"""What the service is told from outside; values that are unsafe together are refused at start.

Every setting can come from the environment with the prefix `BINDERY_`.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class JobSettings(BaseModel):
    """How submitted jobs are run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    master: str = Field(default="local[2]", description="the Spark master")
    conf: dict[str, str] = Field(default={}, description="more settings of Spark")
    roots: tuple[str, ...] = Field(default=(), description="folders or addresses that sources of jobs may lie in")
    secrets: Path | None = Field(default=None, description="a folder of files that job documents refer to by name")
    stop_wait: float = Field(default=30.0, gt=0, description="seconds that a restart waits for the job's end")


class Settings(BaseSettings):
    """The settings of one service process."""

    model_config = SettingsConfigDict(env_prefix="BINDERY_", env_nested_delimiter="__", frozen=True)

    data: Path = Field(description="the data directory")
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(15672, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    insecure: bool = Field(False, description="listen without TLS on an address that is not loopback")
    ssl_certfile: Path | None = Field(None, description="PEM certificate chain; with it the service speaks TLS")
    ssl_keyfile: Path | None = Field(None, description="PEM private key of the certificate")
    access_log: bool = Field(False, description="write a line per request")

    admin_user: str | None = Field(None, description="name of the first administrator")
    admin_password: SecretStr | None = Field(None, description="password of the first administrator")

    docs: bool = Field(True, description="serve /docs and /openapi.json")
    metrics: Literal["off", "authenticated", "open"] = Field(
        "authenticated", description="serve /metrics: to nobody, to users with the tag monitoring, or to everybody"
    )
    metrics_series: int = Field(
        1_000, ge=0, le=100_000, description="exchanges, queues, bindings … with a series of their own, per metric"
    )
    metrics_depths: bool = Field(False, description="show at /metrics how many rows queues hold")
    cluster_name: str = Field("bindery@localhost", description="the name shown by clients")

    body_limit: int = Field(16 * 2**20, gt=0, description="bytes of a request body, where nothing else is said")
    binding_body_limit: int = Field(5_000, gt=0, description="bytes of a binding declaration")
    definitions_limit: int = Field(256 * 2**20, gt=0, description="bytes of a definitions file")
    inbox_limit: int = Field(64 * 2**20, gt=0, description="bytes of one bulk ingestion")
    message_limit: int = Field(16 * 2**20, gt=0, description="bytes of one published message")
    get_limit: int = Field(10_000, gt=0, description="messages that one get gives at most")
    header_limit: int = Field(64 * 1024, gt=0, description="bytes of a request line with its headers")
    failed_logins: int = Field(10, gt=0, description="failed logins per user and address before a pause")
    failed_login_pause: float = Field(30.0, gt=0, description="seconds of that pause")

    jobs: JobSettings = Field(JobSettings(), description="how submitted jobs are run")

    @property
    def is_tls(self) -> bool:
        """Whether the service speaks TLS."""
        return self.ssl_certfile is not None

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @model_validator(mode="after")
    def _refuse_unsafe(self) -> Self:
        if (self.ssl_certfile is None) != (self.ssl_keyfile is None):
            raise ValueError("TLS needs both a certificate file and a key file")
        if not (self.is_loopback or self.is_tls or self.insecure):
            raise ValueError(
                f"{self.host} is reachable from other machines and passwords would travel unencrypted: "
                "give a certificate and key, put a proxy with TLS in front of 127.0.0.1, or say --insecure"
            )
        if (self.admin_user is None) != (self.admin_password is None):
            raise ValueError("BINDERY_ADMIN_USER and BINDERY_ADMIN_PASSWORD belong together")
        if self.admin_password is not None and not self.admin_password.get_secret_value():
            raise ValueError("BINDERY_ADMIN_PASSWORD is empty")
        return self
