"""What the service is told from outside; values that are unsafe together are refused at start.

A setting comes from the command line, else from the environment (`BINDERY_PORT`, `BINDERY_JOBS__MASTER`), else
from the YAML file that `--config` or `BINDERY_CONFIG` names, else it has the default written here.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from bindery.jobs.control.connect import refuse_connect
from bindery.jobs.control.logs import LogFormat
from bindery.router.errors import InvalidInput
from bindery.router.spelling import misspelt
from bindery.store.maintenance.options import MaintenanceOptions

#: What the environment calls settings begins with it.
_PREFIX: Final = "BINDERY_"
CONFIG_VARIABLE: Final = f"{_PREFIX}CONFIG"
#: Shortest password of the first administrator where other machines reach the service.
_SHORTEST_PASSWORD: Final = 12
#: Shortest token for scrapers, whose attempts nobody counts.
_SHORTEST_TOKEN: Final = 32


#: Where one folder or address ends and the next begins: `:` before an absolute path or a scheme.
_NEXT_ROOT: Final = re.compile(r":(?=/(?!/)|[A-Za-z][A-Za-z0-9+.-]*://)")


def _roots(value: object) -> object:
    """A list as it is, as JSON, or separated by `:` as in PATH; addresses keep their own colons."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    roots = [root for root in _NEXT_ROOT.split(value) if root]
    for root in roots:
        if ":" in root and "://" not in root:
            raise ValueError(
                f"{root!r}: folders are separated by `:` and begin with `/`; give a list as JSON for others"
            )
    return roots


def _address(value: object) -> object:
    return os.fspath(value) if isinstance(value, Path) else value


class JobSettings(BaseModel):
    """How submitted jobs are run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    master: str = Field(default="local[2]", description="the Spark master")
    conf: dict[str, str] = Field(default={}, description="more settings of Spark")
    roots: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_roots)] = Field(
        default=(), description="folders or addresses that sources of jobs may lie in"
    )
    secrets: Path | None = Field(default=None, description="a folder of files that job documents refer to by name")
    stop_wait: float = Field(default=30.0, gt=0, description="seconds that a restart waits for the job's end")


class MaintenanceSettings(MaintenanceOptions):
    """How the service maintains the tables of its data directory (docs/operations.md)."""

    enabled: bool = Field(default=True, description="maintain the data directory while the service runs")
    every: float = Field(default=3_600.0, ge=1, description="seconds between two passes over all tables")


#: A file with a secret; an empty variable stands for none, as in other images that take a password from a file.
_SecretFile = Annotated[Path | None, BeforeValidator(lambda value: value or None)]


def _secret_text(file: Path, setting: str) -> str:
    """What a file says but for line ends at its end. Raises ValueError, naming the setting, if that is nothing."""
    try:
        text = file.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"{setting}: cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{setting}: {file} is not UTF-8") from None
    if not text:
        raise ValueError(f"{setting}: {file} is empty")
    return text


def _refuse_misspelt() -> None:
    """Raise InvalidInput for a variable that is nearly a setting of the service: nothing else would read it."""
    known = sorted(name.upper() for name in Settings.model_fields)
    for name in sorted(os.environ):
        stem = name.upper().partition("__")[0].removeprefix(_PREFIX)
        if not name.upper().startswith(_PREFIX) or stem in known:
            continue
        meant = misspelt(stem, known)
        if meant is not None:
            raise InvalidInput("no setting of the service", where=name, hint=f"did you mean {_PREFIX}{meant}?")


class ConfiguredSettings(BaseSettings):
    """Settings of the command line, the environment and a file."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_nested_delimiter="__", frozen=True)

    @classmethod
    def configured(cls, config: Path | None = None, **given: Any) -> Self:
        """The settings of a YAML file, of the one in BINDERY_CONFIG without a name, or of none.

        `given` and then the environment come first. Raises ValidationError, OSError for a missing file, and
        InvalidInput for a variable whose name is nearly that of a setting.
        """
        _refuse_misspelt()
        name = config or os.environ.get(CONFIG_VARIABLE)
        if not name:
            return cls(**given)
        Path(name).read_bytes()  # a file that is not there would count as empty

        class Configured(cls):  # type: ignore[misc, valid-type]  # the file is known only now
            model_config = SettingsConfigDict(yaml_file=name)

        return Configured(**given)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line, environment, file; nothing else is looked at."""
        file = YamlConfigSettingsSource(settings_cls)
        if "admin_password" in file():
            raise ValueError("admin_password: passwords do not belong into files: set BINDERY_ADMIN_PASSWORD")
        return init_settings, env_settings, file


class StartSettings(ConfiguredSettings):
    """What of the service's settings says how jobs are started, for whoever starts them without a service."""

    model_config = SettingsConfigDict(extra="ignore")

    log_format: LogFormat = Field("text", description="lines of the log: text, or one JSON object each")
    jobs: JobSettings = Field(JobSettings(), description="how submitted jobs are run")

    @model_validator(mode="after")
    def _refuse_unsafe(self) -> Self:
        refuse_connect(master=self.jobs.master, conf=self.jobs.conf)
        return self


class Settings(ConfiguredSettings):
    """The settings of one service process."""

    environment: Literal["development", "test", "production"] = Field(
        "development", description="production refuses what is only convenient"
    )
    data: Annotated[str, BeforeValidator(_address)] = Field(
        min_length=1, description="the data directory: a folder, or a URL of an object store"
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(15672, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    insecure: bool = Field(False, description="listen without TLS on an address that is not loopback")
    ssl_certfile: Path | None = Field(None, description="PEM certificate chain; with it the service speaks TLS")
    ssl_keyfile: Path | None = Field(None, description="PEM private key of the certificate")
    trusted_proxies: tuple[str, ...] = Field(
        (), description="addresses or networks of the proxies that speak TLS for this service"
    )
    access_log: bool = Field(False, description="write a line per request")
    log_format: LogFormat = Field("text", description="lines of the log: text, or one JSON object each")

    admin_user: str | None = Field(None, description="name of the first administrator")
    admin_password: SecretStr | None = Field(None, description="password of the first administrator")
    admin_password_file: _SecretFile = Field(None, description="a file with that password, instead of it")

    console: bool = Field(True, description="serve the console at /")
    session_idle: float = Field(
        1_800.0, gt=0, description="seconds without use after which a login at the console ends"
    )
    session_longest: float = Field(43_200.0, gt=0, description="seconds after which it ends in any case")
    docs: bool = Field(True, description="serve /docs and /openapi.json")
    metrics: Literal["off", "authenticated", "open"] = Field(
        "authenticated", description="serve /metrics: to nobody, to users with the tag monitoring, or to everybody"
    )
    metrics_token_file: _SecretFile = Field(
        None, description="a file with a token, which as a bearer token reads /metrics and nothing else"
    )
    metrics_series: int = Field(
        1_000, ge=0, le=100_000, description="exchanges, queues, bindings … with a series of their own, per metric"
    )
    metrics_depths: bool = Field(False, description="show at /metrics how many rows queues hold")
    cluster_name: str = Field("bindery@localhost", description="the name shown by clients")

    body_limit: int = Field(2**20, gt=0, description="bytes of a request body, where nothing else is said")
    binding_body_limit: int = Field(5_000, gt=0, description="bytes of a binding declaration")
    definitions_limit: int = Field(256 * 2**20, gt=0, description="bytes of a definitions file")
    inbox_limit: int = Field(64 * 2**20, gt=0, description="bytes of one bulk ingestion")
    message_limit: int = Field(16 * 2**20, gt=0, description="bytes of one published message")
    get_limit: int = Field(10_000, gt=0, description="messages that one get gives at most")
    header_limit: int = Field(64 * 1024, gt=0, description="bytes of a request line with its headers")
    failed_logins: int = Field(10, gt=0, description="failed logins per user and address before a pause")
    failed_login_pause: float = Field(30.0, gt=0, description="seconds of that pause")

    jobs: JobSettings = Field(JobSettings(), description="how submitted jobs are run")
    maintenance: MaintenanceSettings = Field(
        MaintenanceSettings(), description="how the tables of the data directory are maintained"
    )

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

    def metrics_token(self) -> str | None:
        """The token of the file that is named for it. Raises ValueError for one that is unreadable or short."""
        if self.metrics_token_file is None:
            return None
        token = _secret_text(self.metrics_token_file, "metrics_token_file")
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise ValueError(
                f"metrics_token_file: {self.metrics_token_file} has more than printable ASCII without spaces"
            )
        if len(token) < _SHORTEST_TOKEN:
            raise ValueError(
                f"metrics_token_file: {self.metrics_token_file} has less than {_SHORTEST_TOKEN} characters"
            )
        return token

    @model_validator(mode="before")
    @classmethod
    def _read_password(cls, values: dict[str, Any]) -> dict[str, Any]:
        file = values.get("admin_password_file")
        if not file:
            return values
        if values.get("admin_password"):
            raise ValueError("BINDERY_ADMIN_PASSWORD and BINDERY_ADMIN_PASSWORD_FILE are both given: give one of them")
        return {**values, "admin_password": SecretStr(_secret_text(Path(file), "admin_password_file"))}

    @model_validator(mode="after")
    def _refuse_unsafe(self) -> Self:
        if (self.ssl_certfile is None) != (self.ssl_keyfile is None):
            raise ValueError("TLS needs both a certificate file and a key file")
        if not (self.is_loopback or self.is_tls or self.insecure or self.trusted_proxies):
            raise ValueError(
                f"{self.host} is reachable from other machines and passwords would travel unencrypted: "
                "give a certificate and key, name the proxies with TLS in front of it as trusted_proxies, "
                "or say --insecure"
            )
        if (self.admin_user is None) != (self.admin_password is None):
            raise ValueError(
                "BINDERY_ADMIN_USER and BINDERY_ADMIN_PASSWORD, or BINDERY_ADMIN_PASSWORD_FILE, belong together"
            )
        if self.metrics_token_file is not None and self.metrics != "authenticated":
            raise ValueError(f"metrics_token_file: nobody is asked for a token with metrics: {self.metrics}")
        self.metrics_token()
        if self.admin_password is not None:
            self._refuse_weak(self.admin_password.get_secret_value())
        for network in self.trusted_proxies:
            try:
                everybody = ipaddress.ip_network(network).prefixlen == 0
            except ValueError:
                raise ValueError(f"trusted_proxies: {network!r} is no address or network") from None
            if everybody:
                raise ValueError(f"trusted_proxies: {network!r} would believe everybody")
        for root in self.jobs.roots:
            if "://" in root:
                continue
            if not Path(root).is_absolute():
                raise ValueError(f"jobs.roots: {root!r} is neither an absolute path nor an address")
            if len(Path(os.path.normpath(root)).parts) < 2:
                raise ValueError(f"jobs.roots: {root!r} would let jobs read the whole machine")
        refuse_connect(master=self.jobs.master, conf=self.jobs.conf)
        if self.environment == "production":
            self._refuse_convenient()
        return self

    def _refuse_weak(self, password: str) -> None:
        if not password:
            raise ValueError("BINDERY_ADMIN_PASSWORD is empty")
        if not self.is_loopback and (len(password) < _SHORTEST_PASSWORD or password == self.admin_user):
            raise ValueError(
                f"BINDERY_ADMIN_PASSWORD is shorter than {_SHORTEST_PASSWORD} characters or the user's name, and "
                "other machines reach the service"
            )

    def _refuse_convenient(self) -> None:
        if self.insecure:
            raise ValueError("insecure: refused in production; give a certificate and key, or trusted_proxies")
        if self.metrics == "open" and not self.is_loopback:
            raise ValueError("metrics: 'open' shows names of queues to everybody; refused in production")
        if "://" not in self.data and not Path(self.data).is_absolute():
            raise ValueError("data: a relative path depends on where the service is started; refused in production")
        key = self.ssl_keyfile
        if key is not None and key.exists() and key.stat().st_mode & 0o007:
            raise ValueError(f"ssl_keyfile: {key} is open to every user of the machine; refused in production")
