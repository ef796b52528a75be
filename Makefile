# Everything runs from a virtual environment that this file makes itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup check programs test demo rides sim campaign coverage sim-bench failover growth bench bench-quick schemas codec-proof codec-bench kernel-bench idle-bench many-leaders spark-bench starved-driver proof wheels console-budget screenshots pictures exactly-once change-stream examples clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | sort | column -t -s "$$(printf '\t')" 2>/dev/null || true

setup: $(STAMP) ## Make .venv with everything installed

NATIVE := $(wildcard src/tidelog/_native/*.pyx src/tidelog/_native/*.h)

$(STAMP): pyproject.toml hatch_build.py $(NATIVE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/tidelog version  # a build without its compiled kernels succeeds, and must not go unseen
	$(BIN)/python -m compileall -q src  # also where bytecode is not written by itself: nodes start sooner
	@touch $@

check: setup ## Format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

programs: setup ## Debian's kcat and chromium, if they are missing and we are root, and servers of S3 and of Google's store, with Go: tests drive them
	@$(BIN)/python scripts/debian_programs.py kcat chromium
	@$(BIN)/python scripts/go_programs.py

# On two cores: tests wait for processes and disks a third of their time.
WORKERS ?= 3

test: check programs ## Every test but the long ones of `make proof`
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -q --ignore tests/spark --ignore tests/console/browser -m 'not long'
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -q tests/console/browser -m 'not long'  # Playwright keeps a loop running
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -q tests/spark -m 'not long'  # a Spark session for each worker

demo: setup ## The main job, end to end: orders, Spark, a killed leader, every cent counted
	$(BIN)/tidelog demo

rides: setup ## Taxi rides into a table that Polars checks, with kills on the way; RIDES='--rate 2000 --seconds 20' for less
	$(BIN)/python examples/ride-lakehouse/run.py $(RIDES)

examples: setup ## What the READMEs of the examples say, done
	$(BIN)/python scripts/run_examples.py

sim: setup ## The long proof: 500 seeds, every crash state, every mutant
	$(BIN)/tidelog sim run --seeds 500 --require-marks
	$(BIN)/tidelog sim crash-states
	$(BIN)/tidelog sim mutants

MINUTES  ?= 10
EVENTS   ?= 1000000
CAMPAIGN ?= campaign

campaign: setup ## More whole-node seeds for MINUTES=10, added to the table in CAMPAIGN=campaign
	$(BIN)/tidelog sim campaign $(CAMPAIGN) --minutes $(MINUTES)

coverage: setup ## How much of production whole-node seeds run, package by package
	$(BIN)/tidelog sim coverage --seeds 100

failover: setup ## Kill the leader 20 times under load: what is lost, how long it takes
	$(BIN)/tidelog bench failover

growth: setup ## What one more partition, connection or byte costs; SCALE='--scale quick' for less
	$(BIN)/tidelog bench growth $(SCALE) --json docs/bench/growth.json --plots docs/bench

sim-bench: setup ## Simulated steps per second
	$(BIN)/tidelog sim bench

bench: setup ## Beside Apache Kafka on this machine, every row with its ratio; about an hour
	$(BIN)/tidelog bench compare --json docs/bench/compare.json --plots docs/bench

bench-quick: setup ## Our half beside the limit of the machine, in under 3 minutes; AGAINST=FILE for ratios to an earlier run, SECURE=1 for those of a secured cluster
	$(BIN)/tidelog bench quick --json bench-quick.json $(if $(AGAINST),--against $(AGAINST)) $(if $(SECURE),--secure)

schemas: setup ## Write the schemas of the protocol anew
	$(BIN)/python scripts/make_schemas.py

codec-proof: setup ## Every message and version, many times, against kio
	$(BIN)/python scripts/codec_proof.py

codec-bench: setup ## What it costs to decode and encode messages
	$(BIN)/python benchmarks/codec.py

kernel-bench: setup ## Record batches to Arrow and back: compiled, and in Python
	$(BIN)/python benchmarks/kernel.py

idle-bench: setup ## What an idle cluster costs: start, stop, memory, processor
	$(BIN)/python benchmarks/idle.py

many-leaders: setup ## 5,000 partitions get their first record, and then their next leader, at once
	$(BIN)/python benchmarks/many_leaders.py

spark-bench: setup ## Spark over Tidelog beside the stock connector and Parquet; SCALE=--quick for less
	$(BIN)/python benchmarks/spark.py $(SCALE)

console-budget: programs ## What the pages of the console weigh, how soon they paint, what a viewer costs
	$(BIN)/python scripts/console_budget.py

screenshots: programs ## Pictures of the console for README and docs, in light and in dark
	$(BIN)/python scripts/console_screenshots.py

pictures: programs ## The pictures that tests compare pages of the console with, taken anew
	$(BIN)/python scripts/console_pictures.py

starved-driver: setup ## Does a stream start where thirty other processes want the processor too? A few minutes
	$(BIN)/python benchmarks/starved_driver.py

wheels: setup ## A wheel for each of Python 3.11 to 3.14, built and tried there; PYTHONS='3.13 3.14' for less
	$(BIN)/python scripts/build_wheels.py $(PYTHONS)

proof: programs ## The long stories: a standalone Spark cluster, killed drivers, the demo, the documents, older clients
	$(BIN)/pytest -q -m long --ignore tests/console/browser
	$(BIN)/pytest -q -m long tests/console/browser  # Playwright keeps a loop running

exactly-once: setup ## Kill drivers, workers, executors and leaders while Spark writes; count the rows
	$(BIN)/python benchmarks/exactly_once.py --runs 20

change-stream: setup ## A million change events into Delta and Iceberg while drivers are killed; EVENTS=20000 for less
	$(BIN)/python benchmarks/change_stream.py --events $(EVENTS)

clean: ## Remove what setup and tests made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .cache dist build src/tidelog/_native/*.so src/tidelog/_native/not_compiled.txt
