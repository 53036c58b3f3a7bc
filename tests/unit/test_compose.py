"""The compose file: loaded as docker compose loads it, and every command in it read by the program it starts."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import time
import zipfile
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pyspark
import pytest
import typer
import yaml

from bindery.api.settings import Settings
from bindery.cli.main import app
from bindery.jobs.control.config import load_job
from bindery.store.paths import DataDir

PROJECT = Path(__file__).parents[2]
FILE = PROJECT / "docker-compose.yml"
LOADER = PROJECT / "tests" / "compose"
ADMINISTRATOR = {"BINDERY_ADMIN_USER": "admin", "BINDERY_ADMIN_PASSWORD": "correct horse battery"}
WORKERS = ("spark-worker-1", "spark-worker-2")
CONFIGS = PROJECT / "configs" / "compose"
#: Paths in the image -> where they come from.
IMAGE = {"/opt/bindery/jobs": PROJECT / "jobs", "/opt/bindery/configs": PROJECT / "configs"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return loaded


def command(compose: dict[str, Any], service: str) -> list[str]:
    words: list[str] = compose["services"][service]["command"]
    assert all(isinstance(word, str) for word in words)
    return words


def in_project(path: str) -> Path:
    (root,) = (root for root in IMAGE if path.startswith(root + "/"))
    return IMAGE[root] / path.removeprefix(root + "/")


# -- the loader of docker compose ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`docker compose config`, or a program on the library that it loads files with; {} stands for the file."""
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0:
        return [docker, "compose", "--file", "{}", "config", "--quiet"]
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("neither docker compose nor go is installed")
    program = tmp_path_factory.mktemp("compose") / "load"
    build = [go, "build", "-o", str(program), "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    built = subprocess.run(build, cwd=LOADER, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if built.returncode != 0:
        pytest.skip(f"the loader cannot be built: {built.stderr[-300:]}")
    return [str(program), "{}"]


def load(loader: list[str], file: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("BINDERY_")}
    arguments = [str(file) if word == "{}" else word for word in loader]
    return subprocess.run(
        arguments, env=outside | environment, cwd=file.parent, capture_output=True, text=True, timeout=60, check=False
    )


def test_docker_compose_loads_it(loader: list[str]) -> None:
    done = load(loader, FILE, **ADMINISTRATOR)
    assert done.returncode == 0, done.stderr


def test_there_is_no_default_password(loader: list[str]) -> None:
    done = load(loader, FILE, BINDERY_ADMIN_USER="admin")
    assert done.returncode != 0
    assert "BINDERY_ADMIN_PASSWORD" in done.stderr


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("condition: service_healthy", "condition: service_happy"),
        ("  bindery:\n  object-store:\n", "  other:\n  object-store:\n"),
        ("    stop_grace_period: 40s", "    stop_grace: 40s"),
        ("    networks: [inside, edge]", "    networks: [inside, outside]"),
    ],
)
def test_the_loader_would_notice(loader: list[str], tmp_path: Path, before: str, after: str) -> None:
    text = FILE.read_text()
    assert before in text
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(text.replace(before, after, 1))
    assert load(loader, broken, **ADMINISTRATOR).returncode != 0


# -- the commands --------------------------------------------------------------------------------------


def test_the_control_plane_starts_with_settings_that_it_accepts(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = command(compose, "control-plane")
    assert started[2] == "metrics"
    program, name, *arguments = started[3:]
    assert program == "bindery"
    with typer.main.get_command(app).commands[name].make_context(name, arguments) as context:  # type: ignore[attr-defined]
        config = in_project(str(context.params["config"]))
    token = tmp_path / "token"
    token.write_text("0" * 64)
    stated = compose["services"]["control-plane"]["environment"]
    own = {name: str(value) for name, value in stated.items() if name in ("BINDERY_DATA", "BINDERY_STATE")}
    assert stated["BINDERY_METRICS_TOKEN_FILE"] == "/etc/bindery/metrics/token"
    for variable, value in {**ADMINISTRATOR, **own, "BINDERY_METRICS_TOKEN_FILE": str(token)}.items():
        monkeypatch.setenv(variable, value)
    settings = Settings.configured(config)
    assert settings.data == "s3://bindery/data"
    assert settings.environment == "production"
    published = compose["services"]["control-plane"]["ports"]
    assert published == [f"127.0.0.1:${{BINDERY_PORT:-{settings.port}}}:{settings.port}"], "plain HTTP stays here"
    volume = compose["x-bindery"]["volumes"][0].partition(":")[2]
    folder, broker = settings.jobs.roots
    assert all(path.startswith(volume + "/") for path in (folder, own["BINDERY_STATE"]))
    assert broker == "kafka://kafka:9092"
    edge = {name: IPv4Network(value) for name, value in compose["networks"]["edge"]["ipam"]["config"][0].items()}
    (proxy,) = map(IPv4Network, settings.trusted_proxies)
    assert proxy.subnet_of(edge["subnet"])
    assert not proxy.overlaps(edge["gateway"]), "callers through the published port have the gateway's address"
    assert not proxy.overlaps(edge["ip_range"]), "so have containers that nobody gave an address"
    monkeypatch.setenv("BINDERY_ADMIN_PASSWORD", "guest")
    with pytest.raises(ValueError, match="shorter than 12"):
        Settings.configured(config)


def test_the_image_starts_the_control_plane_as_the_compose_file_does(compose: dict[str, Any]) -> None:
    (started,) = re.findall(r"^CMD (\[.*\])$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    assert yaml.safe_load(started) == command(compose, "control-plane")[3:]


def test_the_streaming_job_is_one_that_runs(compose: dict[str, Any]) -> None:
    words = command(compose, "incoming")
    script = words.index("/opt/bindery/jobs/route.py")
    assert in_project(words[script]).is_file()
    options = words[script + 1 :]
    job = load_job(in_project(options[options.index("--config") + 1])).job
    config = Settings.configured(PROJECT / "configs" / "production.yaml")
    assert job.source.path in config.jobs.roots  # type: ignore[union-attr]
    data = options[options.index("--data") + 1]
    assert data == compose["services"]["control-plane"]["environment"]["BINDERY_DATA"]
    # a job file that is not there is reported by the job itself, once its own parser has read the options
    options[options.index("--config") + 1] = "/no/such/job.yaml"
    done = subprocess.run(
        [sys.executable, str(PROJECT / "jobs" / "route.py"), *options],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "cannot read the job file" in done.stderr, done.stderr


def test_spark_reads_the_options_of_the_streaming_job(compose: dict[str, Any]) -> None:
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java")
    words = command(compose, "incoming")
    assert words[0] == "/opt/spark/bin/spark-submit"

    def read(arguments: list[str]) -> subprocess.CompletedProcess[str]:
        jars = str(Path(pyspark.__file__).parent / "jars" / "*")
        main = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
        environment = {**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13"}
        return subprocess.run(
            [java, "-Xmx64m", "-cp", jars, *main, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    accepted = read(words[1:])
    assert ("route.py" in accepted.stdout, accepted.stderr) == (True, "")
    broken = ["--mistress" if word == "--master" else word for word in words[1:]]
    assert "Unrecognized option: --mistress" in read(broken).stderr


@pytest.mark.parametrize("service", ["spark-master", *WORKERS])
def test_sparks_own_classes_are_there(compose: dict[str, Any], service: str) -> None:
    program, name = command(compose, service)[3:5] if service == "spark-master" else command(compose, service)[:2]
    assert (Path(pyspark.__file__).parent / program.removeprefix("/opt/spark/")).is_file()
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-core_*.jar")
    with zipfile.ZipFile(jar) as archive:
        assert name.replace(".", "/") + ".class" in archive.namelist()


# -- safety --------------------------------------------------------------------------------------------


def test_every_service_is_confined_and_watched(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["healthcheck"]["test"], name
        assert "privileged" not in service, name
        assert service["hostname"] == name
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name
        assert ("edge" in service["networks"]) == ("ports" in service), name
    assert compose["networks"]["inside"]["internal"]


def test_each_volume_is_mounted_by_those_who_need_it(compose: dict[str, Any]) -> None:
    mounted: dict[str, set[str]] = {}
    for name, service in compose["services"].items():
        for volume in service["volumes"]:
            mounted.setdefault(volume.partition(":")[0], set()).add(name + (":ro" if volume.endswith(":ro") else ""))
    assert mounted.keys() == compose["volumes"].keys()
    drivers = {"control-plane", "incoming", *WORKERS}
    assert mounted["bindery"] == drivers
    assert mounted["spark-conf"] == {"spark-master", *(f"{name}:ro" for name in drivers)}
    assert mounted["store-keys"] == {"object-store", *(f"{name}:ro" for name in drivers)}
    assert mounted["metrics-token"] == {"control-plane", "prometheus:ro"}
    for own in ("object-store", "kafka", "prometheus", "spark-master"):
        assert mounted[own] == {own}


def test_whoever_reads_or_writes_data_knows_where_the_store_is(compose: dict[str, Any]) -> None:
    for name in ("control-plane", "incoming", *WORKERS):
        environment = compose["services"][name]["environment"]
        assert compose["x-store"].items() <= environment.items(), name
    keys = compose["x-store"]["AWS_SHARED_CREDENTIALS_FILE"]
    assert compose["services"]["object-store"]["environment"] == {"AWS_SHARED_CREDENTIALS_FILE": keys}
    named = {word for service in compose["services"].values() for word in service.get("environment", {})}
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} & named


def test_what_a_health_check_runs_is_python(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        how, program, option, code = service["healthcheck"]["test"]
        assert (how, program, option) == ("CMD", "python", "-c"), name
        compile(code, name, "exec")


@pytest.mark.parametrize("dockerfile", ["Dockerfile", "configs/compose/Dockerfile"])
def test_images_run_as_a_user_of_their_own_with_what_they_copy(dockerfile: str) -> None:
    text = (PROJECT / dockerfile).read_text()
    started = [stage for stage in text.split("\nFROM ") if "\nCMD " in stage]
    assert started
    for stage in started:
        assert "\nUSER bindery\n" in stage
    kept = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for path in line.split():
            assert (PROJECT / path).exists(), path
            assert Path(path).parts[0] in kept, f"{path} is left out by .dockerignore"


@pytest.mark.parametrize(
    ("kind", "service", "variable", "name", "text"),
    [
        ("spark", "spark-master", "SPARK_CONF_DIR", "", r"spark.authenticate true\nspark.authenticate.secret {}\n"),
        (
            "store",
            "object-store",
            "AWS_SHARED_CREDENTIALS_FILE",
            "credentials",
            r"\[default\]\naws_access_key_id = bindery\naws_secret_access_key = {}\n",
        ),
        ("metrics", "control-plane", "BINDERY_METRICS_TOKEN_FILE", "token", r"{}\n"),
    ],
)
def test_a_secret_is_made_once_and_read_by_nobody_else(
    compose: dict[str, Any], tmp_path: Path, kind: str, service: str, variable: str, name: str, text: str
) -> None:
    words = started_by(compose, service)
    assert words[2] == kind
    file = tmp_path / (name or "spark-defaults.conf")
    environment = {**os.environ, variable: str(tmp_path / name)}
    call = ["/bin/sh", str(PROJECT / "configs" / "compose" / Path(words[1]).name), kind, "/bin/cat", str(file)]
    made = [subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert re.fullmatch(text.format("[0-9a-f]{64}"), made[0])
    assert made[0] == made[1], "the secret is made once"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_no_token_is_made_where_none_is_named(tmp_path: Path) -> None:
    call = ["/bin/sh", str(CONFIGS / "with-secret.sh"), "metrics", "echo", "started"]
    environment = {**os.environ, "BINDERY_METRICS_TOKEN_FILE": ""}
    done = subprocess.run(call, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, list(tmp_path.iterdir())) == ("started\n", [])


def started_by(compose: dict[str, Any], service: str) -> list[str]:
    """The command of a service, or of the image that it is built of."""
    stated = compose["services"][service]
    if "command" in stated:
        return command(compose, service)
    text = (PROJECT / stated["build"]["dockerfile"]).read_text()
    (stage,) = (stage for stage in text.split("\nFROM ") if stage.startswith(f"base AS {stated['build']['target']}\n"))
    words: list[str] = yaml.safe_load(stage.partition("\nCMD ")[2])
    return words


def test_sparks_pages_are_for_their_containers(compose: dict[str, Any]) -> None:
    for service in ("spark-master", *WORKERS):
        assert compose["services"][service]["environment"]["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_kafkas_tools_are_what_the_image_links_to() -> None:
    known = re.findall(r"^    (kafka-[a-z-]+)\) class=", (CONFIGS / "kafka" / "tool.sh").read_text(), re.MULTILINE)
    text = (CONFIGS / "Dockerfile").read_text()
    assert sorted(known) == sorted(set(re.findall(r"kafka-(?:topics|console-\w+|consumer-groups)", text)))


def running_job(folder: Path) -> tuple[Path, str]:
    """The checkpoint of a job in that folder, and the health check of `incoming` for it."""
    code = yaml.safe_load(FILE.read_text())["services"]["incoming"]["healthcheck"]["test"][-1]
    process = folder / "proc" / "7"
    process.mkdir(parents=True)
    (process / "cmdline").write_bytes(b"/opt/venv/bin/python\0/opt/venv/lib/site-packages/bindery/jobs/route.py\0")
    checkpoint = folder / "checkpoint"
    kept = DataDir("s3://bindery/data").checkpoint("incoming")
    assert f'"{kept}"' in code
    changed = code.replace('"/proc"', repr(str(folder / "proc"))).replace(f'"{kept}"', repr(str(checkpoint)))
    for part in ("offsets", "commits"):
        (checkpoint / part).mkdir(parents=True)
    return checkpoint, changed


@pytest.mark.parametrize(
    ("begun", "done", "age", "well"),
    [
        ([], [], 0, True),
        (["9", "10"], ["9", "10"], 1_000, True),
        (["9", "10"], ["9"], 200, True),
        (["9", "10"], ["9"], 1_000, False),
    ],
)
def test_a_job_whose_batch_does_not_end_is_not_healthy(
    tmp_path: Path, begun: list[str], done: list[str], age: int, well: bool
) -> None:
    checkpoint, code = running_job(tmp_path)
    for part, names in (("offsets", begun), ("commits", done)):
        for name in names:
            (checkpoint / part / name).touch()
            os.utime(checkpoint / part / name, (time.time() - age,) * 2)
    done_ = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done_.returncode == 0) == well, done_.stderr
    (tmp_path / "proc" / "7" / "cmdline").write_bytes(b"java\0-cp\0x")
    gone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "the driver does not run" in gone.stderr


def test_jobs_find_deltas_jars_in_the_image() -> None:
    assert 'mv "$jar" /opt/spark/jars/' in (PROJECT / "Dockerfile").read_text()
    conf = Settings.configured(PROJECT / "configs" / "production.yaml").jobs.conf
    assert not {"spark.jars", "spark.jars.packages"} & conf.keys()
