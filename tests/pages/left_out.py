"""Blocks and commands of the pages that no test runs, by their first line, each with the reason."""

from __future__ import annotations

from typing import Final

_DRAWING = "a drawing"
_STORE = "needs an object store; tests/unit/analytics/test_catalog.py"
_PROCESS = "starts Spark in a process of its own; tests/service/test_jobs_command.py"
_PLATFORM = "needs the platform; options of Bindery's own programs are checked"

#: Page -> first line of the block, or of the command in a block -> why it cannot be run here.
LEFT_OUT: Final[dict[str, dict[str, str]]] = {
    "README.md": {
        "flowchart LR": _DRAWING,
        "make demo     # routes the 336,776 flights that left New York in 2013": (
            "downloads the flights; tests/spark/test_flights.py"
        ),
        "make test     # sets up and runs the tests": "is what runs this",
        "$ python3.11 -m venv ~/bindery": "minutes; test_wheel.py does it at night",
        "rabbitmqadmin --host 127.0.0.1 --username admin "
        '--password "$BINDERY_ADMIN_PASSWORD" declare queue --name audit': (
            "not everywhere; tests/service/test_clients.py runs both clients"
        ),
    },
    "CONTRIBUTING.md": {
        "BINDERY_S3_SERVER=minio .venv/bin/python -m pytest tests -k s3": "is a run of the tests",
    },
    "docs/architecture.md": {
        "bindery/demo          a year of flights, end to end": _DRAWING,
        "source ──► intake ──► pin ──► tasks: fold ─► route ─► write ──► commit ──► manifest": _DRAWING,
    },
    "docs/benchmarks.md": {
        "BINDERY_BENCH_BROKER=http://guest:guest@localhost:15672 make bench-api": "needs a RabbitMQ",
    },
    "docs/filters.md": {
        "bindery schemas pull --registry https://registry:8081 --subject flights-value --exchange flights | "
        'bindery apply - --reason "flights-value 3"': "needs a registry; tests/unit/cli/test_schemas_command.py",
    },
    "docs/deploy/README.md": {
        "pip wheel --no-deps --wheel-dir dist .": "needs a cluster; test_wheel.py builds the wheel",
        "error: executors: the executor on worker-3 has Bindery 0.1.0 (8e0c259f2876), "
        "the driver has Bindery 0.1.0 (439103477b0d)": "needs two machines; tests/spark/test_executors.py",
    },
    "docs/deploy/databricks.md": {
        "/Workspace/…/route.py --config /Volumes/main/bindery/conf/job.yaml --data s3://bucket/bindery": _PLATFORM,
    },
    "docs/deploy/emr.md": {
        "unset SPARK_HOME SPARK_CONF_DIR                        # EMR's Spark and its settings": _PLATFORM,
    },
    "docs/deploy/kubernetes.md": {
        "docker build -t registry.example/bindery:0.1.0 . && docker push registry.example/bindery:0.1.0": _PLATFORM,
        "FROM registry.example/bindery:0.1.0": "needs a Docker engine",
        "image: {repository: registry.example/bindery, tag: 0.1.0}": "needs Go; tests/unit/test_kubernetes.py",
        "/opt/spark/bin/spark-submit --master k8s://https://kubernetes.default.svc \\": _PLATFORM,
    },
    "docs/deploy/spark-standalone.md": {
        "cp dist/bindery-0.1.0-py3-none-any.whl bindery.zip     # a wheel by that name: Spark puts .zip on the path, "
        ".whl not": "needs a cluster; tests/spark/test_standalone.py",
    },
    "docs/deploy/yarn.md": {
        "python3.11 -m venv env && env/bin/pip install --constraint configs/constraints/newest.txt "
        "dist/bindery-0.1.0-py3-none-any.whl venv-pack": _PLATFORM,
    },
    "docs/drain.md": {
        "bindery drain --url amqp://app@broker.example/ --password env:BROKER_PASSWORD --queue orders --data ./data": (
            "needs a RabbitMQ; tests/service/test_drain.py"
        ),
        "bindery route --config job.yaml --data ./data": "runs until it is interrupted",
    },
    "docs/forward.md": {
        "bindery forward --data ./data --queue orders --bootstrap-servers kafka:9092 --topic orders           "
        "# what is there": "needs a Kafka; tests/service/test_forward.py",
        "bindery forward --data ./data --queue orders --bootstrap-servers kafka:9092 --topic orders --follow  "
        "# and what comes": "needs a Kafka; tests/service/test_forward.py",
    },
    "docs/how-to/compose.md": {
        "export BINDERY_ADMIN_USER=admin BINDERY_ADMIN_PASSWORD=…      # there is no default": (
            "needs a Docker engine; `make compose-check`"
        ),
        'curl -u "$BINDERY_ADMIN_USER:$BINDERY_ADMIN_PASSWORD" -X PUT '
        'http://127.0.0.1:15672/api/exchanges/%2F/orders --json \'{"type": "topic"}\'': (
            "needs a Docker engine; `make compose-check`"
        ),
        'curl -u "$BINDERY_ADMIN_USER:$BINDERY_ADMIN_PASSWORD" http://127.0.0.1:15672/api/jobs '
        '--json \'{"stream": "orders", "source": {"format": "kafka", "bootstrap_servers": "kafka:9092", '
        '"topics": ["orders"]}}\'': "needs a Docker engine; `make compose-check`",
        "docker compose down": "needs a Docker engine; `make compose-check`",
    },
    "docs/how-to/kafka.md": {
        "bindery route --config job.yaml --preview 5": "needs a Kafka; tests/spark/test_kafka.py",
        "bindery jobs submit job.yaml --wait": _PROCESS,
    },
    "docs/how-to/monitor.md": {"scrape_configs:": "needs Prometheus"},
    "docs/how-to/secure.md": {
        "bindery serve --data data --host 0.0.0.0 --ssl-certfile /etc/ssl/bindery.pem "
        "--ssl-keyfile /etc/ssl/bindery.key": "needs a certificate; tests/service/test_serve.py",
    },
    "docs/jobs.md": {
        "bindery jobs submit job.yaml --data ./data                      # in a process of its own, which goes on "
        "(below)": _PROCESS,
        "bindery jobs submit job.yaml --data ./data --wait     # prints its id, which is its stream": _PROCESS,
        "bindery route --config job.yaml --data ./data                   # until it is interrupted": (
            "runs until it is interrupted; tests/spark/test_route_command.py"
        ),
        "zip -r bindery.zip bindery -i '*.py' '*.lark'": "needs a cluster; tests/spark/test_cluster.py",
    },
    "docs/metrics.md": {"scrape_configs:": "needs Prometheus"},
    "docs/migration/rabbitmq.md": {
        "bindery import --from rabbitmq http://admin@broker.example:15672 --password env:BROKER_PASSWORD "
        "--report report.html --data ./data": "needs a RabbitMQ; tests/service/test_import_live.py",
    },
    "docs/migration/rabbitmq-walk.md": {
        "export BROKER_USER=app BROKER_PASSWORD=…": "the test has a broker of its own",
        "export BROKER=amqp://$BROKER_USER@broker.example/ BROKER_API=http://$BROKER_USER@broker.example:15672": (
            "the test has a broker of its own"
        ),
    },
    "docs/operations.md": {
        "2026-05-04T10:15:02.120Z warning bindery.api failed login of 'ann' from 192.0.2.7": (
            "lines of a log; tests/unit/jobs/test_logs.py"
        ),
        "bindery route --config job.yaml --data data --repin": "mends what is broken; tests/spark/test_pins.py",
        "export BINDERY_ADMIN_USER=admin BINDERY_ADMIN_PASSWORD=…      # there is no default": (
            "needs a Docker engine; `make compose-check`"
        ),
        'api() { curl --silent --show-error --fail --user "$BINDERY_ADMIN_USER:$BINDERY_ADMIN_PASSWORD" "$@"; }': (
            "needs a Docker engine; `make compose-check`"
        ),
        "services: {control-plane: {secrets: [admin_password]}}": "needs a Docker engine",
        "server {": "needs nginx",
    },
    "docs/shadow.md": {
        "bindery shadow --rabbitmq amqp://admin@broker.example/ --management http://admin@broker.example:15672 \\": (
            "needs a RabbitMQ; tests/service/test_shadow.py, docs/migration/rabbitmq-walk.md"
        ),
    },
    "docs/storage.md": {
        "batch 7 ──> journal: rows, routing.deferred = [.., 12, ..]        one commit, with the batch": _DRAWING,
        "export AWS_REGION=eu-central-1        # and credentials, see below": (
            "needs an object store; tests of `s3` run the same commands"
        ),
    },
    "docs/tables.md": {
        "bindery register --catalog hive --data data | spark-sql -f /dev/stdin": (
            "needs a Spark with Delta; the section on Spark SQL runs the statements"
        ),
        "bindery register --catalog unity --schema main.mq --data s3://bucket/bindery > register.sql": _STORE,
        "bindery register --catalog glue --schema mq --data s3://bucket/bindery > athena.sql": _STORE,
        "bindery register --catalog duckdb --data data | duckdb catalog.duckdb": (
            "needs DuckDB's program; tests/unit/analytics/test_catalog.py runs the statements"
        ),
    },
}
