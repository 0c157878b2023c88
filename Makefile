PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PYTHONDONTWRITEBYTECODE := # hundreds of processes would each compile all that they import
# Where a process of tests dies and another takes its place, xdist waits for ever for the rest of its file.
ENDS := --max-worker-restart 0
# Most of these tests wait most of the time: five processes keep two cores busy.
INTEROP := $(BIN)/pytest tests/interop $(ENDS) -n 5 --dist loadgroup --no-loadscope-reorder --durations=20 --timeout 1500

.PHONY: help demo setup test kernels lint interop interop-long bench campaign docs lock clean

help: ## Print the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: setup ## Run the whole product once, with checks: half a minute
	$(BIN)/cometmq demo

setup: $(READY) ## Make the environment, from the lock

test: kernels ## Run the tests that need nothing but Python: five to ten minutes
	$(BIN)/pytest $(ENDS) -n 3 --dist loadfile --no-loadscope-reorder --durations=20

kernels: setup ## Compile the kernels: a minute, once for each change of them
	$(BIN)/python -m cometmq.kernels

lint: setup ## Check style, types and layers
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

interop: setup ## Run the tests with RocketMQ's own programs: needs Java 17 and Maven
	$(INTEROP) -m "interop and not interop_long"

interop-long: setup ## Run other sizes and rounds of these: after changes to formats, recovery or timers
	$(INTEROP) -m interop_long

bench: setup ## Measure the parts, in process
	for part in write_paths bulk_sends reads pulls kernels; do $(BIN)/python -m benches.bench_$$part || exit 1; done

campaign: setup ## Run the campaign NAME with OPTIONS, or list all: minutes to hours that break things, and judge
	$(BIN)/python -m tests.campaigns $(or $(NAME),--list) $(OPTIONS)

docs: setup ## Build the site in build/docs
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/docs && echo build/docs/index.html

lock: setup ## Resolve all dependencies anew
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --all-extras --group dev --group docs --no-emit-index-url --custom-compile-command "make lock" -o requirements.lock pyproject.toml

clean: ## Remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# The lock names all packages, so pip need not look for more; Python compiles them when they are imported.
$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@
