PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PYTHONDONTWRITEBYTECODE := # hundreds of processes would each compile all that they import
# Where a process of tests dies and another takes its place, xdist waits for ever for the rest of its file.
ENDS := --max-worker-restart 0
# Most of these tests wait most of the time: five processes keep two cores busy.
INTEROP := $(BIN)/pytest tests/interop $(ENDS) -n 5 --dist loadgroup --no-loadscope-reorder --durations=20 --timeout 1500

.PHONY: demo test kernels lint interop interop-long pop-kills failover bench bench-peers bench-spark-kafka durability rebalance idempotence soak splits streams clusters sinks remotes replicas queues proxies partitions intruders console-tour report-pages dists servers docs lock setup clean

demo: setup ; $(BIN)/cometmq demo
test: kernels ; $(BIN)/pytest $(ENDS) -n 3 --dist loadfile --no-loadscope-reorder --durations=20
kernels: setup ; $(BIN)/python -m cometmq.kernels
lint: setup ; $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
interop: setup ; $(INTEROP) -m "interop and not interop_long"
interop-long: setup ; $(INTEROP) -m interop_long
pop-kills: setup ; $(BIN)/pytest tests/interop/test_pop_kills.py -m interop_long -s
bench: setup ; for part in write_paths bulk_sends reads pulls kernels; do $(BIN)/python -m benches.bench_$$part || exit 1; done
bench-peers: setup ; $(BIN)/python -m benches --write
bench-spark-kafka: setup ; $(BIN)/python -m benches.bench_spark_kafka
durability: setup ; $(BIN)/python -m tests.durability
failover: setup ; $(BIN)/python -m tests.failover
setup: $(READY)
rebalance: setup ; $(BIN)/python -m tests.rebalance
idempotence: setup ; $(BIN)/python -m tests.idempotence
soak: setup ; $(BIN)/python -m tests.soak
splits: setup ; $(BIN)/python -m tests.splits
streams: setup ; $(BIN)/python -m tests.streams && $(BIN)/python -m tests.streams.brokers
clusters: setup ; $(BIN)/python -m tests.clusters
partitions: setup ; $(BIN)/python -m tests.partitions
proxies: setup ; $(BIN)/python -m tests.proxies
console-tour: setup ; $(BIN)/pytest tests/console_tour -m browser $(ENDS)
report-pages: setup ; $(BIN)/python -m tests.report_pages
sinks: setup ; $(BIN)/python -m tests.sinks
remotes: setup ; $(BIN)/python -m tests.remotes
replicas: setup ; $(BIN)/python -m tests.replicas && $(BIN)/python -m tests.replicas.power
queues: setup ; $(BIN)/python -m tests.queues
dists: setup ; $(BIN)/python -m pip install -q uv && $(BIN)/python -m tests.dists
servers: setup ; $(BIN)/python -m tests.servers
intruders: setup ; $(BIN)/python -m tests.intruders
docs: setup ; $(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/docs && echo build/docs/index.html
lock: setup ; $(BIN)/python -m pip install -q uv && $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --all-extras --group dev --group docs --no-emit-index-url --custom-compile-command "make lock" -o requirements.lock pyproject.toml
clean: ; rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# The lock names all packages, so pip need not look for more; Python compiles them when they are imported.
$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@
