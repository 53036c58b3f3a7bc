"""Settings: where they come from, in which order, and which are refused at start."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from bindery.api.settings import Settings
from bindery.cli.main import app
from bindery.cli.serve import configured as serve_configured
from bindery.router.error_text import render_error
from bindery.router.errors import InvalidInput

CONFIGS = Path(__file__).parents[3] / "configs"
EVERYWHERE = "0.0.0.0"  # noqa: S104  # nothing listens here
STRONG = "correct horse battery"


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BINDERY_CONFIG", raising=False)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"BINDERY_{name.upper()}", raising=False)


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text)
    return path


def test_options_come_first_then_the_environment_then_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "data: /a\nport: 1\nheader_limit: 1\njobs: {master: 'local[7]', stop_wait: 5}\n")
    monkeypatch.setenv("BINDERY_HEADER_LIMIT", "2")
    monkeypatch.setenv("BINDERY_PORT", "2")
    monkeypatch.setenv("BINDERY_JOBS__STOP_WAIT", "6")
    settings = Settings.configured(file, port=3)
    assert (settings.data, settings.port, settings.header_limit) == ("/a", 3, 2)
    assert (settings.jobs.master, settings.jobs.stop_wait) == ("local[7]", 6)


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINDERY_CONFIG", str(written(tmp_path, "data: /from-file\n")))
    assert Settings.configured().data == "/from-file"
    assert Settings(data="/x").data == "/x", "nothing but `configured` reads the file"


@pytest.mark.parametrize("name", sorted(path.name for path in CONFIGS.glob("*.yaml")))
def test_every_environment_has_valid_settings(name: str) -> None:
    assert Settings.configured(CONFIGS / name).environment == name.removesuffix(".yaml")


def test_there_is_a_file_per_environment() -> None:
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == {"development", "test", "production"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"host": EVERYWHERE}, "unencrypted"),
        ({"host": "bindery.example"}, "unencrypted"),
        ({"ssl_certfile": "/c"}, "both"),
        ({"admin_user": "x"}, "belong together"),
        ({"admin_user": "x", "admin_password": ""}, "empty"),
        ({"admin_user": "x", "admin_password": "y", "admin_password_file": "/z"}, "both given"),
        ({"admin_user": "x", "admin_password_file": "/no/such/file"}, "cannot read /no/such/file: No such file"),
        ({"admin_user": "x", "admin_password_file": "/"}, "cannot read /: Is a directory"),
        ({"admin_user": "x", "admin_password_file": "/dev/null"}, "/dev/null is empty"),
        ({"admin_password_file": "/etc/hostname"}, "belong together"),
        ({"metrics_token_file": "/no/such/file"}, "metrics_token_file: cannot read /no/such/file"),
        ({"metrics_token_file": "/proc/sys/kernel/ostype"}, "less than 32 characters"),
        ({"metrics_token_file": "/proc/version"}, "more than printable ASCII without spaces"),
        ({"metrics_token_file": "/dev/null", "metrics": "open"}, "nobody is asked for a token with metrics: open"),
        ({"metrics_token_file": "/dev/null", "metrics": "off"}, "nobody is asked"),
        ({"host": EVERYWHERE, "insecure": True, "admin_user": "x", "admin_password": "guest"}, "shorter than 12"),
        ({"host": EVERYWHERE, "insecure": True, "admin_user": STRONG, "admin_password": STRONG}, "user's name"),
        ({"trusted_proxies": ["*"]}, "no address or network"),
        ({"trusted_proxies": ["0.0.0.0/0"]}, "would believe everybody"),
        ({"jobs": {"roots": ["/"]}}, "whole machine"),
        ({"jobs": {"roots": ["/srv/.."]}}, "whole machine"),
        ({"jobs": {"roots": ["incoming"]}}, "jobs.roots: 'incoming' is neither an absolute path nor an address"),
        ({"jobs": {"root": ["/srv"]}}, "jobs.root"),
        ({"environment": "production", "insecure": True}, "insecure"),
        ({"environment": "production", "data": "data"}, "relative path"),
        (
            {"environment": "production", "host": EVERYWHERE, "trusted_proxies": ["10.0.0.1"], "metrics": "open"},
            "names of queues",
        ),
        ({"maintenance": {"retention": "1 month"}}, "no length of time"),
        ({"maintenance": {"target_size": "1 KiB"}}, "no size"),
        ({"maintenance": {"often": True}}, "maintenance.often"),
        ({"environment": "staging"}, "environment"),
        ({"failed_logins": 0}, "failed_logins"),
    ],
)
def test_what_is_unsafe_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Settings(**{"data": "/d", **given})


def test_a_key_that_everybody_may_read_is_refused_in_production(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    key.write_text("")
    given: dict[str, Any] = {"environment": "production", "data": "/d", "ssl_certfile": certificate, "ssl_keyfile": key}
    key.chmod(0o644)
    with pytest.raises(ValidationError, match="open to every user"):
        Settings(**given)
    key.chmod(0o640)
    assert Settings(**given).is_tls


def test_other_machines_are_let_in_by_tls_a_proxy_or_an_explicit_word() -> None:
    for given in (
        {"ssl_certfile": "/c", "ssl_keyfile": "/k"},
        {"trusted_proxies": ["10.0.0.0/8", "::1"]},
        {"insecure": True},
    ):
        Settings(**{"data": "/d", "host": EVERYWHERE, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("data: /d\nprot: 5\n", "error: prot: unknown setting\nhint: did you mean 'port'?"),
        ("data: /d\nadmin_user: x\nadmin_password: " + STRONG + "\n", "BINDERY_ADMIN_PASSWORD"),
        ("data: [\n", "bad settings"),
        ("- data\n", "bad settings"),
        (None, "No such file"),
    ],
)
def test_a_bad_file_is_told_without_a_traceback(tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "missing.yaml" if text is None else written(tmp_path, text)
    done = CliRunner().invoke(app, ["serve", "--config", str(file)])
    assert done.exit_code != 0
    assert isinstance(done.exception, InvalidInput)
    said = render_error(done.exception) + done.output
    assert reason in said
    assert STRONG not in said


@pytest.mark.parametrize("content", [b"\n", b"\r\n\n", b"p\xff"])
def test_a_file_without_a_password_is_refused(tmp_path: Path, content: bytes) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(content)
    with pytest.raises(ValidationError, match=f"admin_password_file: .*{secret}") as refused:
        Settings(data="/d", admin_user="x", admin_password_file=secret)
    assert "xff" not in str(refused.value)


def test_maintenance_is_on_unless_it_is_switched_off(tmp_path: Path) -> None:
    assert Settings(data="/d").maintenance.enabled
    file = written(tmp_path, "data: /a\nmaintenance: {enabled: false, retention: 2 days, target_size: 8 MiB}\n")
    found = Settings.configured(file).maintenance
    assert not found.enabled
    assert (found.policy.retention, found.policy.target_bytes) == (timedelta(days=2), 8 << 20)


@pytest.mark.parametrize(
    ("said", "roots"),
    [
        ("/srv/in", ("/srv/in",)),
        ("/x:/y", ("/x", "/y")),
        ("/x:s3a://bucket/in:/y", ("/x", "s3a://bucket/in", "/y")),
        ("kafka://a:9092:kafka://b:9092:/x", ("kafka://a:9092", "kafka://b:9092", "/x")),
        ('["/x:y", "/z"]', ("/x:y", "/z")),
        ("", ()),
    ],
)
def test_roots_of_jobs_are_separated_by_colons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, roots: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BINDERY_JOBS__ROOTS", said)
    assert Settings(data=str(tmp_path)).jobs.roots == roots


def test_a_colon_in_a_folder_is_no_separator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINDERY_JOBS__ROOTS", "/x:y")
    with pytest.raises(ValidationError, match="begin with `/`"):
        Settings(data=str(tmp_path))


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("BINDERY_PORT", "abc", "error: port: Input should be a valid integer, "),
        ("BINDERY_JOBS__ROOTS", "incoming", "error: jobs.roots: 'incoming' is neither "),
        ("BINDERY_JOBS__ROTS", "/srv", "error: jobs.rots: unknown setting\nhint: did you mean 'roots'?"),
        ("BINDERY_PROT", "1", "error: BINDERY_PROT: no setting of the service\nhint: did you mean BINDERY_PORT?"),
        (
            "BINDERY_JOBZ__ROOTS",
            "/x",
            "error: BINDERY_JOBZ__ROOTS: no setting of the service\nhint: did you mean BINDERY_JOBS?",
        ),
    ],
)
def test_the_setting_that_is_wrong_is_named_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidInput) as found:
        serve_configured(Settings, None, {"data": str(tmp_path)})
    assert render_error(found.value).startswith(said)


def test_variables_of_other_programs_are_nobodys_misspelt_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the commands and of the deployment files."""
    others = ("CA_FILE", "CACHE", "CONFIG", "KAFKA_JARS", "PASSWORD", "PROMETHEUS_PORT", "SERVICE", "SECRET_PORTS",
              "STATE", "STORE_PORT", "USER", "NIGHTLY", "S3_SERVER")  # fmt: skip
    for name in others:
        monkeypatch.setenv(f"BINDERY_{name}", "")
    assert Settings.configured(data="/d").data == "/d"
