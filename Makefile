# Entry points for people and CI. Needs Python 3.11, Java 17 (demo, Spark tests, bench) and make; no root.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DATA ?= data/demo
# What is installed: the newest tested set, or configs/constraints/oldest.txt
CONSTRAINTS ?= configs/constraints/newest.txt

# Spark's scratch goes to memory where there is room for it
SCRATCH ?= $(shell test -d /dev/shm -a -w /dev/shm && echo /dev/shm || echo $${TMPDIR:-/tmp})
export SPARK_LOCAL_DIRS ?= $(SCRATCH)/bindery-spark

# Processes of `make test`: one for what needs the Spark session (tests/lanes.py), the others for the rest
WORKERS ?= 2

# mkdocs-material advertises its successor in the terminal unless told not to; --quiet would count no warning
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs

# What the nightly run also asks of another object store than that of the tests, where there is one
SECOND_OPINION := $(addprefix tests/unit/store/test_,s3_bed.py object_store.py commit.py log.py) -k "s3 or object_store"

.DEFAULT_GOAL := help
.PHONY: help venv demo test nightly test-oldest constraints lint format bench bench-match bench-filters bench-api bench-console bench-files bench-commit bench-endurance bench-stream \
	bench-write bench-growth bench-deferred bench-latency bench-publish bench-maintenance bench-storage bench-executors bench-peers bench-all docs docs-serve faults fuzz random mutate faults-real pictures compose-check conformance clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## Create .venv with everything installed

$(STAMP): pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) -e '.[test,demo]'
	@touch $@

demo: $(STAMP) ## Route a year of flights through four exchange types (data in DATA=data/demo)
	$(BIN)/python -m bindery.demo --data $(DATA)

test: $(STAMP) ## Run every test, in two processes: make test WORKERS=2
	$(BIN)/python -m pytest -n $(WORKERS)

nightly: $(STAMP) ## Run the tests that are left out of `make test`: servers that are killed, many messages, the longest on an object store
	BINDERY_NIGHTLY=1 $(BIN)/python -m pytest -m "nightly or long"
	for server in minio versitygw; do \
		if command -v $$server; then BINDERY_S3_SERVER=$$server $(BIN)/python -m pytest $(SECOND_OPINION) || exit 1; fi; \
	done

test-oldest: ## Run every test with the oldest packages that are allowed (in .venv-oldest)
	$(MAKE) test VENV=.venv-oldest CONSTRAINTS=configs/constraints/oldest.txt

constraints: ## Take the newest packages that are allowed into the set that is installed
	rm -rf .venv-newest
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet -e '.[test,demo]'
	echo '# What `make venv` and the image install: written by `make constraints`.' > $(CONSTRAINTS)
	.venv-newest/bin/python -m pip freeze --exclude-editable >> $(CONSTRAINTS)
	rm -rf .venv-newest

lint: $(STAMP) ## Check style, formatting, types and what imports what
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxlint -c configs/oxlint.json api/console/static
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP) ## Apply the formatter
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## Routing into 100 queues against Spark's plain append
	$(BIN)/python -m benchmarks.bench_route

bench-match: $(STAMP) ## Exchange matchers at scale
	$(BIN)/python -m benchmarks.bench_match

bench-filters: $(STAMP) ## Text filters and filter sets
	$(BIN)/python -m benchmarks.bench_filters
	$(BIN)/python -m benchmarks.bench_filter_sets

bench-growth: $(STAMP) ## What must not grow: bindings, ranges, negations, distinct keys, queues, wide and long messages, memory of a task
	$(BIN)/python -m benchmarks.bench_growth

bench-api: $(STAMP) ## The REST control plane, beside a RabbitMQ if there is one (BINDERY_BENCH_BROKER=http://…)
	$(BIN)/python -m benchmarks.bench_api

bench-console: $(STAMP) ## The console over 10,000 queues and 100,000 bindings, in a browser
	$(BIN)/python -m benchmarks.bench_console

bench-files: $(STAMP) ## What remembering 100,000 files costs a stream
	$(BIN)/python -m benchmarks.bench_files

bench-commit: $(STAMP) ## What a commit costs as a table's log grows
	$(BIN)/python -m benchmarks.bench_commit

bench-write: $(STAMP) ## Writing the copies of 100,000 messages against pyarrow alone, without Spark
	$(BIN)/python -m benchmarks.bench_write

bench-endurance: $(STAMP) ## 2,000 small batches into 100 queues, 1,000 deferred ones and a journal, without Spark (BATCHES=2000, MINUTES=30)
	$(BIN)/python -m benchmarks.bench_endurance --batches $(or $(BATCHES),2000) $(if $(MINUTES),--minutes $(MINUTES))

bench-stream: $(STAMP) ## 5,000 small batches of a streaming job into 100 queues: what a batch costs after months (BATCHES=5000, MINUTES=30)
	$(BIN)/python -m benchmarks.bench_stream --batches $(or $(BATCHES),5000) $(if $(MINUTES),--minutes $(MINUTES))

bench-deferred: $(STAMP) ## 10,000 deferred queues for an hour of a short clock, without Spark (FRESHNESS=200)
	$(BIN)/python -m benchmarks.bench_deferred --freshness $(or $(FRESHNESS),200)

bench-latency: $(STAMP) ## What a batch of 10,000 messages takes, by stage, one after the other (SECONDS_EACH=600)
	$(BIN)/python -m benchmarks.bench_latency --seconds $(or $(SECONDS_EACH),600)

bench-publish: $(STAMP) ## A hundred messages a second over REST: how long until each is in its table
	$(BIN)/python -m benchmarks.bench_publish

bench-maintenance: $(STAMP) ## What maintenance costs a stream into 100 queues
	$(BIN)/python -m benchmarks.bench_maintenance

bench-storage: $(STAMP) ## Small batches on a folder and on an object store: make bench-storage DATA=s3://bucket/prefix
	$(BIN)/python -m benchmarks.bench_storage $(if $(findstring ://,$(DATA)),--data $(DATA))

bench-executors: $(STAMP) ## Two executors of one core against one, on a cluster of this machine
	$(BIN)/python -m benchmarks.bench_executors

bench-peers: $(STAMP) ## The same messages through RabbitMQ, Broker-J, Artemis, Spark without a router, polars and DuckDB: make bench-peers PEERS=rabbitmq,spark
	$(BIN)/python -m benchmarks.peers $(if $(PEERS),--only $(PEERS)) $(if $(QUICK),--quick)

bench-all: $(STAMP) ## The benchmarks whose answers docs/benchmarks.md shows, into results/latest.json and the page: make bench-all QUICK=1 for a short run beside it
	$(BIN)/python -m benchmarks.all $(if $(QUICK),--quick)

docs: $(STAMP) ## Build the documentation site into build/site: a warning fails; it is read from the file system, or served
	$(MKDOCS) build --strict

docs-serve: $(STAMP) ## Show the documentation at http://127.0.0.1:8000 while pages are written
	$(MKDOCS) serve

fuzz: $(STAMP) ## Fuzz the parsers (needs the fuzz extra: .venv/bin/pip install -e '.[fuzz]')
	$(BIN)/python -m tests.fuzz

faults: $(STAMP) ## Every fault at every effect, and random schedules of both, against a model: make faults SCHEDULES=20000 STORE=s3
	$(BIN)/python -m tests.faults --schedules $(or $(SCHEDULES),20000) $(if $(STORE),--store $(STORE))

faults-real: $(STAMP) ## Kill the real programs, fill their disk: make faults-real KILLS=50 FILLINGS=10 SEED=1 (15 minutes on two idle cores)
	TMPDIR=$(SCRATCH) $(BIN)/python -m tests.faults.real --kills $(or $(KILLS),50) --fillings $(or $(FILLINGS),10) $(if $(SEED),--seed $(SEED))

pictures: $(STAMP) ## Take the pictures of README and docs anew: a newcomer's way through the console after the demo
	BINDERY_PICTURES=docs/pictures/console $(BIN)/python -m pytest tests/spark/test_newcomer.py

compose-check: $(STAMP) ## Build and run docker-compose.yml, and send a message from Kafka into a queue table
	$(BIN)/python -m tests.compose.check

random: $(STAMP) ## Run the random tests of filters and engine on more examples: make random TIMES=50
	BINDERY_EXAMPLES=$(or $(TIMES),20) $(BIN)/python -m pytest tests/unit/filters tests/unit/engine -k "agree or against"

mutate: $(STAMP) ## Put faults into the router and list those that no test notices: make mutate COUNT=300 SEED=1
	$(BIN)/python -m tests.mutation --count $(or $(COUNT),300) --seed $(or $(SEED),1)

conformance: $(STAMP) ## Run conformance cases: make conformance CASES=folder
	$(BIN)/bindery conformance $(or $(CASES),tests/conformance)

clean: ## Remove the environment, caches and the demo's data
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info data/demo
