"""The chart: rendered as helm does, decoded as strictly as the API server can, and read by the programs it starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import typer
import yaml

import bindery
from bindery.api.settings import Settings
from bindery.cli.main import app
from bindery.jobs.control.config import parse_job
from tests.documents import blocks

PROJECT = Path(__file__).parents[2]
CHART = PROJECT / "configs" / "kubernetes" / "bindery"
LOADER = PROJECT / "tests" / "kubernetes"
VALUES = sorted(path.stem for path in (LOADER / "values").glob("*.yaml"))
PASSWORD = "correct horse battery"
TLS = {"controlPlane": {"tls": {"secretName": "t"}}}

Render = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Renders and decodes a chart with values files."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("the loader cannot be built: go is not installed")
    program = tmp_path_factory.mktemp("chart") / "render"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=LOADER,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if built.returncode != 0:
        pytest.skip(f"the loader cannot be built: {built.stderr[-300:]}")

    def rendered(*values: Path, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
        command = [str(program), str(chart), *map(str, values)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return rendered


@pytest.fixture(scope="module", params=VALUES)
def objects(request: pytest.FixtureRequest, render: Render) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of a release, by kind and name."""
    done = render(LOADER / "values" / f"{request.param}.yaml")
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.safe_load_all(done.stdout) if one is not None]
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found)
    return named


def test_the_values_of_the_page_give_a_release(render: Render, tmp_path: Path) -> None:
    (values,) = [block for block in blocks("docs/deploy/kubernetes.md") if block.name == "values.yaml"]
    (tmp_path / values.name).write_text(values.text)
    done = render(tmp_path / values.name)
    assert done.returncode == 0, done.stderr
    kinds = {one["kind"] for one in yaml.safe_load_all(done.stdout) if one is not None}
    assert {"Deployment", "Ingress", "ServiceAccount", "ConfigMap"} <= kinds


def pods(objects: dict[tuple[str, str], dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The specification of every pod, executors included."""
    for (kind, name), one in objects.items():
        if kind == "Deployment":
            yield name, one["spec"]["template"]["spec"]
        elif kind == "CronJob":
            yield name, one["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        elif kind == "ConfigMap" and "executor-pod.yaml" in one["data"]:
            yield f"{name} executor", yaml.safe_load(one["data"]["executor-pod.yaml"])["spec"]


def container(spec: dict[str, Any]) -> dict[str, Any]:
    (only,) = spec["containers"]
    found: dict[str, Any] = only
    return found


def jobs(objects: dict[tuple[str, str], dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Deployment and ConfigMap of every streaming job."""
    for (kind, name), one in objects.items():
        if kind == "Deployment" and one["spec"]["template"]["metadata"]["labels"].get("bindery/job"):
            yield one, objects["ConfigMap", name]


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("control-plane.yaml", "readinessProbe:", "readynessProbe:"),
        ("control-plane.yaml", "  replicas: {{ $control.replicas }}", "  replicas: many"),
        ("control-plane.yaml", "kind: Deployment", "kind: Deploiment"),
        ("control-plane.yaml", "$control.replicas }}", "$control.replica }}"),
        ("control-plane.yaml", "      interval:", "      intervals:"),
        ("_helpers.tpl", "readOnlyRootFilesystem", "readonlyRootFilesystem"),
        ("streams.yaml", "        - name: executor\n", "        - named: executor\n"),
        ("network-policy.yaml", "policyTypes: [Ingress]", "policyType: [Ingress]"),
        ("maintenance.yaml", "  schedule:", "  shedule:"),
    ],
)
def test_the_loader_would_notice(render: Render, tmp_path: Path, file: str, before: str, after: str) -> None:
    chart = tmp_path / "bindery"
    shutil.copytree(CHART, chart)
    template = chart / "templates" / file
    text = template.read_text()
    assert before in text
    template.write_text(text.replace(before, after, 1))
    statuses = {render(LOADER / "values" / f"{name}.yaml", chart=chart).returncode for name in VALUES}
    assert statuses - {0}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "passwords would travel unencrypted"),
        (TLS | {"replica": 2}, "replica"),
        (TLS | {"data": {"address": "/var/lib"}}, "address"),
        ({"controlPlane": {**TLS["controlPlane"], "replicas": 2}}, "ReadWriteMany"),
        (TLS | {"jobs": {"a": {"config": {}, "master": "kubernetes"}}}, "ReadWriteMany"),
        (TLS | {"jobs": {"a": {"config": {}, "master": "spark://host:7077"}}}, "master"),
        (TLS | {"jobs": {"a": {"master": "local[1]"}}}, "config"),
        (TLS | {"serviceMonitor": {"enabled": True}}, "tag monitoring"),
    ],
)
def test_values_that_are_wrong_or_unsafe_are_refused(
    render: Render, tmp_path: Path, values: dict[str, Any], reason: str
) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = render(file)
    assert done.returncode != 0
    assert reason in done.stderr


def test_every_pod_is_confined(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    for name, spec in pods(objects):
        pod, inner = spec["securityContext"], container(spec)["securityContext"]
        assert (pod["runAsNonRoot"], pod["runAsUser"], pod["fsGroup"]) == (True, 10001, 10001), name
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert inner == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        with_token = spec["automountServiceAccountToken"]
        assert with_token == spec["serviceAccountName"].endswith("-driver"), name
        assert with_token == any("k8s://" in word for word in container(spec).get("command", ())), name
        if "executor" not in name:  # of executors Spark says it
            assert container(spec)["resources"].keys() == {"requests", "limits"}, name
        mounted = {mount["name"] for mount in container(spec)["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}, name


def test_what_is_referred_to_is_there(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    for name, spec in pods(objects):
        assert ("ServiceAccount", spec["serviceAccountName"]) in objects, name
        for volume in spec["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in objects, name
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            assert claim in (None, "shared") or ("PersistentVolumeClaim", claim) in objects, name
    for (kind, _), one in objects.items():
        if kind == "Deployment":
            assert (
                one["spec"]["selector"]["matchLabels"].items() <= one["spec"]["template"]["metadata"]["labels"].items()
            )
    service = objects["Service", "test-bindery"]["spec"]["selector"]
    chosen = [
        name
        for (kind, name), one in objects.items()
        if kind == "Deployment" and service.items() <= one["spec"]["template"]["metadata"]["labels"].items()
    ]
    assert chosen == ["test-bindery"]


def test_the_control_plane_starts_with_settings_that_it_accepts(
    objects: dict[tuple[str, str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = container(objects["Deployment", "test-bindery"]["spec"]["template"]["spec"])
    program, name, *arguments = served["command"]
    assert program == "bindery"
    with typer.main.get_command(app).commands[name].make_context(name, arguments) as context:  # type: ignore[attr-defined]
        assert str(context.params["config"]) == "/etc/bindery/settings.yaml"
    for variable in [one for one in os.environ if one.startswith("BINDERY_")]:
        monkeypatch.delenv(variable)
    for variable in served["env"]:
        if variable["name"] == "BINDERY_ADMIN_PASSWORD_FILE":
            (tmp_path / "password").write_text(PASSWORD + "\n")
            monkeypatch.setenv("BINDERY_ADMIN_PASSWORD_FILE", str(tmp_path / "password"))
        elif variable["name"].startswith("BINDERY_"):
            monkeypatch.setenv(variable["name"], variable["value"])
    file = tmp_path / "settings.yaml"
    file.write_text(objects["ConfigMap", "test-bindery"]["data"]["settings.yaml"])
    # the folder or the address: the store's matter
    settings = Settings.configured(file, data=Path("/var/lib/bindery/data"))
    assert (settings.environment, settings.port, settings.docs) == ("production", 15672, False)
    assert served["ports"] == [{"name": "http", "containerPort": settings.port}]
    if settings.ssl_keyfile is not None:
        assert settings.ssl_keyfile.parent == Path("/run/tls")
        (volume,) = (
            volume
            for volume in objects["Deployment", "test-bindery"]["spec"]["template"]["spec"]["volumes"]
            if volume["name"] == "tls"
        )
        assert not volume["secret"]["defaultMode"] & 0o007, "production refuses a key that everybody may read"


def test_what_a_probe_runs_is_python(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    served = container(objects["Deployment", "test-bindery"]["spec"]["template"]["spec"])
    for probe in ("startupProbe", "readinessProbe"):
        program, option, code = served[probe]["exec"]["command"]
        assert (program, option) == ("python", "-c")
        compile(code, probe, "exec")


def test_streaming_jobs_are_jobs_that_run(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    for deployment, configuration in jobs(objects):
        spec = deployment["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
        parse_job(configuration["data"]["job.yaml"])
        words = container(spec["template"]["spec"])["command"]
        script = words.index("/opt/bindery/jobs/route.py")
        options = [str(word) for word in words[script + 1 :]]
        assert options[options.index("--config") + 1] == "/etc/bindery/job.yaml"
        assert yaml.safe_load(objects["ConfigMap", "test-bindery"]["data"]["settings.yaml"])["data"] == options[-1]
        # a job file that is not there is reported by the job itself, once its own parser has read the options
        done = subprocess.run(
            [sys.executable, str(PROJECT / "jobs" / "route.py"), *options],
            env={**os.environ, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "cannot read the job file" in done.stderr, done.stderr


def test_spark_reads_the_options_of_streaming_jobs(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    java = shutil.which("java")
    if java is None:
        pytest.skip("no Java")
    jars = Path(pyspark.__file__).parent / "jars"
    for deployment, _ in jobs(objects):
        words = [str(word) for word in container(deployment["spec"]["template"]["spec"])["command"]]
        assert words[0] == "/opt/spark/bin/spark-submit"
        main = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"]
        done = subprocess.run(
            [java, "-Xmx64m", "-cp", f"{jars}/*", *main, *words[1:]],
            env={**os.environ, "SPARK_HOME": str(jars.parent), "SPARK_SCALA_VERSION": "2.13"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ("route.py" in done.stdout, done.stderr) == (True, "")
        if "k8s://https://kubernetes.default.svc" in words:
            assert "spark.kubernetes.executor.podTemplateFile=/etc/bindery/executor-pod.yaml" in words


def test_maintenance_is_a_command_that_there_is(objects: dict[tuple[str, str], dict[str, Any]]) -> None:
    for (kind, _), one in objects.items():
        if kind == "CronJob":
            run = container(one["spec"]["jobTemplate"]["spec"]["template"]["spec"])
            program, name, *arguments = [*run["command"], *run.get("args", ())]
            assert program == "bindery"
            with typer.main.get_command(app).commands[name].make_context(name, arguments):  # type: ignore[attr-defined]
                pass


def test_executors_start_with_what_spark_states(tmp_path: Path) -> None:
    script = PROJECT / "configs" / "kubernetes" / "executor.sh"
    assert "/opt/bindery/configs/kubernetes/executor.sh" in (CHART / "templates" / "streams.yaml").read_text()
    (tmp_path / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "java").chmod(0o755)
    stated = {
        "SPARK_DRIVER_URL": "spark://driver:1",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        **{f"SPARK_JAVA_OPT_{number}": f"-Dx{number}=a b" for number in range(11)},
    }
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_HOME": "/opt/spark", **stated}
    done = subprocess.run(
        ["/bin/sh", str(script), "executor"], env=environment, capture_output=True, text=True, check=True
    )
    words = done.stdout.splitlines()
    assert words[:11] == [f"-Dx{number}=a b" for number in range(11)]
    assert words[11:15] == ["-Xms1024m", "-Xmx1024m", "-cp", "/opt/spark/jars/*"]
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as archive:
        assert words[15].replace(".", "/") + ".class" in archive.namelist()
    options = dict(zip(words[16::2], words[17::2], strict=True))
    assert options["--driver-url"] == "spark://driver:1"
    assert options["--podName"] == "pod"
    assert len(options) == 7
    del environment["SPARK_EXECUTOR_ID"]
    assert subprocess.run(["/bin/sh", str(script)], env=environment, capture_output=True, check=False).returncode != 0


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == bindery.__version__
    assert re.search(r"^COPY configs /opt/bindery/configs$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
