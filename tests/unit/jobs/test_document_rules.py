"""What a job document from the network may ask for, tried as an attacker would; and secrets by reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bindery.jobs.control.connectors import DELTA_PACKAGE
from bindery.jobs.control.document_rules import DocumentRules
from bindery.jobs.control.launch import Launcher
from bindery.jobs.control.references import masked, references, resolved
from bindery.router.errors import InvalidInput
from bindery.store.jobs import JobFolder, JobRecord
from bindery.store.paths import DataDir


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir.open(tmp_path / "data", create=True)


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@pytest.fixture
def rules(data: DataDir, allowed: Path) -> DocumentRules:
    return DocumentRules(data, (str(allowed), "s3a://bucket/in"))


def document(path: Path | str, **more: Any) -> dict[str, Any]:
    return {
        "stream": "s",
        "source": {"format": "json", "path": str(path), "schema": "a STRING, ts TIMESTAMP", **more.pop("source", {})},
        "message": {"routing_key": "a"},
        **more,
    }


def refused(rules: DocumentRules, asked: dict[str, Any]) -> str:
    with pytest.raises(InvalidInput) as caught:
        rules.check(asked)
    return caught.value.message


def test_a_folder_below_an_allowed_one_and_the_inbox_are_fine(
    rules: DocumentRules, allowed: Path, data: DataDir
) -> None:
    plain = (str(allowed), f"{allowed}/deep/er", data.inbox("/"))
    stated = [*((path, path) for path in plain), (f"file://{allowed}", plain[0]), (f"file:{allowed}", plain[0])]
    for path, meant in stated:
        assert rules.check(document(path)).job.source.path == meant  # type: ignore[union-attr]
    assert rules.check(document("s3a://bucket/in/x")).job.source.path == "s3a://bucket/in/x"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "path",
    [
        "/etc",
        "/etc/passwd",
        "/",
        "//etc",
        "in",
        "",
        "~/x",
        "{in}/../data",
        "{in}/../../../../../../etc",
        "{in}/{a,/../../etc}",
        "{in}/*",
        "{in}/[a]",
        "{in}/a?",
        "{in}\\..\\x",
        "{in}x",
        "{in}\0",
        "file:/etc/passwd",
        "FILE:///etc/passwd",
        "file:{in}/../data",
        "hdfs://host/x",
        "http://169.254.169.254/latest/meta-data",
        "jar:file:/x!/y",
        "s3a://bucket/other",
        "s3a://bucket/in/../other",
        "s3a://bucket/in/%2e%2e/other",
        "s3a://bucket/inside",
        "s3a://other/in",
        "{data}",
        "{data}/access",
        "{data}/access/access.json",
        "{data}/jobs",
        "{data}/queues/~2F/q",
        "{data}/inbox/../access",
        "{data}/..",
    ],
)
def test_nothing_else_can_be_read(rules: DocumentRules, allowed: Path, data: DataDir, path: str) -> None:
    asked = document(path.replace("{in}", str(allowed)).replace("{data}", data.root))
    assert refused(rules, asked).startswith("source.path: ")


def test_a_root_around_the_data_directory_does_not_open_it(data: DataDir) -> None:
    rules = DocumentRules(data, ("/",))
    assert rules.check(document("/srv/x")).job.source.path == "/srv/x"  # type: ignore[union-attr]
    for path in (f"{data.root}/access", data.root, str(Path(data.root).parent), "/"):
        refused(rules, document(path))


def test_links_are_followed_before_a_path_is_judged(rules: DocumentRules, allowed: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (allowed / "out").symlink_to("/etc")
    (allowed / "up").symlink_to(tmp_path)
    for name in ("out", "out/ssl", "up", "up/real", "up/data/access"):
        refused(rules, document(allowed / name))
    (allowed / "fine").symlink_to(allowed / "deep")
    assert rules.check(document(allowed / "fine" / "x")).job.source.path == str(allowed / "deep" / "x")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "option",
    [
        "fs.file.impl",
        "fs.s3a.endpoint",
        "fs.s3a.aws.credentials.provider",
        "cleanSource",
        "sourceArchiveDir",
        "rowValidationXSDPath",
        "avroSchemaUrl",
        "parquet.crypto.factory.class",
        "made.up",
        "",
    ],
)
def test_options_that_name_files_classes_or_addresses_are_refused(
    rules: DocumentRules, allowed: Path, option: str
) -> None:
    asked = document(allowed, source={"options": {option: "x"}})
    assert refused(rules, asked).startswith(f"source.options.{option}: ")


def test_harmless_options_pass_in_any_case(rules: DocumentRules, allowed: Path) -> None:
    options = {"maxFilesPerTrigger": 3, "MULTILINE": True, "timestampformat": "yyyy"}
    assert rules.check(document(allowed, source={"options": options})).job.source.options["MULTILINE"] == "true"


@pytest.mark.parametrize(
    "expression",
    [
        "reflect('java.lang.Runtime', 'getRuntime')",
        "REFLECT ('java.lang.System', 'exit', 1)",
        "`reflect`('a', 'b')",
        "java_method('a', 'b')",
        "try_reflect('a', 'b')",
        "concat(a, java_method('a', 'b'))",
        "identifier('ref' || 'lect')('a', 'b')",
        "(SELECT max(a) FROM t)",
        "a IN (select 1)",
        "exists( WITH x AS (SELECT 1) SELECT * FROM x)",
        "from_xml(a, 'b STRING', map('rowValidationXSDPath', '/etc/passwd'))",
        "'it''s' || reflect('a', 'b') || 'x'",
        '"a" || reflect("a", "b")',
    ],
)
@pytest.mark.parametrize("place", ["routing_key", "application_properties.x"])
def test_expressions_that_reach_beyond_the_record_are_refused_at_once(
    rules: DocumentRules, allowed: Path, expression: str, place: str
) -> None:
    column, _, name = place.partition(".")
    asked = document(allowed, message={column: {name: expression} if name else expression})
    assert refused(rules, asked).startswith(f"message.{place}: ")


@pytest.mark.parametrize(
    "expression",
    ["'reflect(a)'", '"(select 1)"', "reflect", "extract(year FROM ts)", "'a\\'(select' || a", "trim(BOTH ' ' FROM a)"],
)
def test_words_in_texts_and_names_of_columns_are_not_calls(
    rules: DocumentRules, allowed: Path, expression: str
) -> None:
    rules.check(document(allowed, message={"routing_key": expression}))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"stream": None}, "stream"),
        ({"stream": "x" * 300}, "stream"),
        ({"source": None}, "source"),
        ({"source": []}, "source"),
        ({"source": {"format": "orc"}}, "source.format"),
        ({"source": {"format": "json"}}, "source.path"),
        ({"source": {"format": "queue"}}, "source.queue"),
        ({"source": {"format": "json", "path": "x", "options": []}}, "source.options"),
        ({"message": {"body": {"x": "y"}}}, "message"),
        ({"message": {"nonsense": "1"}}, "message.nonsense"),
        ({"trigger": "every now and then"}, "trigger"),
        ({"strem": "x"}, "strem"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(
    rules: DocumentRules, allowed: Path, change: dict[str, Any], key: str
) -> None:
    asked = {name: value for name, value in {**document(allowed), **change}.items() if value is not None}
    assert refused(rules, asked).startswith(f"{key}: ")


# -- secrets -------------------------------------------------------------------------------------------

CREDENTIALS = {"fs.s3a.access.key": {"secret": "S3_ID"}, "fs.s3a.secret.key": {"secret": "S3_KEY"}}


def with_secrets() -> dict[str, Any]:
    return document("s3a://bucket/in", source={"options": dict(CREDENTIALS)})


def test_secrets_come_from_the_environment_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINDERY_SECRET_S3_ID", "id from outside")
    (tmp_path / "S3_KEY").write_text("key from a file\n")
    asked = with_secrets()
    found, secrets = resolved(asked, folder=tmp_path)
    assert found["source"]["options"] == {
        "fs.s3a.access.key": "id from outside",
        "fs.s3a.secret.key": "key from a file",
    }
    assert secrets == ["id from outside", "key from a file"]
    assert asked == with_secrets(), "the document itself keeps the references"
    assert masked("Forbidden: key from a file, id from outside.", secrets) == "Forbidden: ***, ***."


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"fs\.s3a\.access\.key: there is no secret S3_ID"):
        resolved(with_secrets(), folder=tmp_path)


@pytest.mark.parametrize("name", ["", "../passwd", "a", "S3/KEY", "A" * 65, 5, None, "PATH\n"])
def test_a_reference_names_nothing_outside_the_folder(tmp_path: Path, name: object) -> None:
    asked = document("x", source={"options": {"fs.s3a.secret.key": {"secret": name}}})
    with pytest.raises(InvalidInput, match="no name of a secret"):
        resolved(asked, folder=tmp_path)


def test_a_credential_in_clear_is_refused_and_not_repeated(rules: DocumentRules) -> None:
    asked = document("s3a://bucket/in", source={"options": {"fs.s3a.secret.key": "hunter2"}})
    assert "hunter2" not in refused(rules, asked)
    assert rules.check(with_secrets()).job.stream == "s"


def test_only_credentials_take_secrets(rules: DocumentRules, allowed: Path) -> None:
    """An option such as the separator would show the secret in what is read."""
    asked = document(allowed, source={"options": {"nullValue": {"secret": "S3_KEY"}}})
    assert refused(rules, asked) == "source.options.nullValue: takes no secret"


def test_a_job_inherits_its_own_secrets_and_nothing_of_the_service(
    data: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECRET_S3_ID", "SECRET_OTHER", "ADMIN_PASSWORD", "CONFIG"):
        monkeypatch.setenv(f"BINDERY_{name}", "x")
    asked = with_secrets()
    inherited = Launcher(data).environment(JobRecord("s", asked, "ann", 1.0))
    assert {name for name in inherited if name.startswith("BINDERY_")} == {"BINDERY_SECRET_S3_ID"}
    assert sorted(references(asked)) == ["S3_ID", "S3_KEY"]


def test_the_command_line_carries_no_text_of_the_document(data: DataDir) -> None:
    asked = document("/in", stream="x; rm -rf / $(id)\n--conf", message={"routing_key": "'$(id)'"})
    launcher = Launcher(data, ("/in",), "spark://master:7077", {"spark.executor.memory": "1g"})
    command = launcher.command(JobFolder(Path("/jobs/x")), JobRecord(asked["stream"], asked, "ann", 1.0), "r1")
    assert command[1:5] == [
        "--master",
        "spark://master:7077",
        "--name",
        "bindery x~3B~20rm~20-rf~20~2F~20~24~28id~29~0A--conf",
    ]
    assert "spark.executor.memory=1g" in command
    assert command[-8:] == ["--job", "/jobs/x", "--data", data.root, "--run", "r1", "--root", "/in"]
    assert not any(word.startswith("spark.jars") for word in command)
    queue = {"stream": "b", "source": {"format": "queue", "queue": "q"}}
    command = launcher.command(JobFolder(Path("/j")), JobRecord("b", queue, "ann", 1.0), "r1")
    assert f"spark.jars.packages={DELTA_PACKAGE}" in command


@pytest.mark.parametrize("group", ["", "io.delta_"])
def test_a_spark_that_has_delta_downloads_nothing(
    data: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    for name in ("bin/spark-submit", f"jars/{group}delta-spark_4.2_2.13-4.4.0.jar"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    queue = {"stream": "b", "source": {"format": "queue", "queue": "q"}}
    command = Launcher(data).command(JobFolder(Path("/j")), JobRecord("b", queue, "ann", 1.0), "r1")
    assert not any(word.startswith("spark.jars") for word in command)
    assert "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension" in command
