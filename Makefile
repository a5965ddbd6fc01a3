# Keyveil. `make` lists what can be made; a fresh machine needs Python 3.11 or later and make, nothing else.

PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python; do \
            "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$candidate" && break; done)
UV     := $(shell command -v uv 2>/dev/null)
BIN    := .venv/bin
STAMP  := .venv/.installed
RUNS   := .venv/.runs

# Compiled modules are kept, whatever the environment says: the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install system demo test quick mutants check format bench soak docs pictures lock audit sbom

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# One environment with two sizes: what the commands need, and everything, with the tools of developers.
define set_up
$(if $(strip $(PYTHON)),,$(error Keyveil needs Python 3.11 or later; say where it is with make PYTHON=/path/to/python3))
$(if $(UV),\
	test -x $(BIN)/python || "$(UV)" venv --quiet --python "$(PYTHON)" .venv; \
	"$(UV)" pip install --quiet --python $(BIN)/python --require-hashes -r $(1) && \
	"$(UV)" pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .,\
	test -x $(BIN)/pip || "$(PYTHON)" -m venv .venv; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(1) && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .)
endef

install: $(STAMP)  ## set up .venv with the pinned dependencies and the keyveil command

$(STAMP): pyproject.toml requirements.lock
	$(call set_up,requirements.lock)
	@touch $(RUNS) $@

$(RUNS): pyproject.toml requirements-run.lock
	$(call set_up,requirements-run.lock)
	@touch $@

# The tests run against a real PostgreSQL server, each in a folder of its own, against Spark, which needs Java, in Node
# and in a real browser, and TypeScript checks the client's declarations. Debian's packages bring all of them.
SERVER  := $(shell command -v initdb 2>/dev/null || ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | head -n 1)
JAVA    := $(or $(JAVA_HOME),$(shell command -v java 2>/dev/null))
MISSING := $(if $(strip $(SERVER)),,postgresql) $(if $(strip $(JAVA)),,default-jre-headless) $(if $(shell command -v node 2>/dev/null),,nodejs) \
	$(if $(shell command -v chromium 2>/dev/null),,chromium) $(if $(shell command -v tsc 2>/dev/null),,node-typescript)

system:
ifneq ($(strip $(MISSING)),)
	@command -v apt-get >/dev/null || { echo "The tests need PostgreSQL's programs, Java, Node, Chromium and TypeScript: please install $(MISSING)."; exit 1; }
	$(if $(filter 0,$(shell id -u)),,sudo) apt-get -qq update
	$(if $(filter 0,$(shell id -u)),,sudo) env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $(MISSING) >/dev/null
endif

demo: $(RUNS)  ## the whole system on this machine; DEMO=--stay keeps its pages up
	$(BIN)/keyveil demo $(DEMO)

# Two processes. Each begins with its half of the files and takes over from the other in the end (worksteal), so that what
# a file's tests share (servers, populations, compiled kernels) is made once and not in both.
WORKERS := -n 2 --dist worksteal

# A test that hangs is ended with a trace of where it stood, and fails: the longest takes half a minute on idle cores.
HANGS := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

test: install system  ## every test, in sizes that fit two cores; ends with the slowest
	$(BIN)/python -m pytest $(WORKERS) $(HANGS) --durations=25

# The inner loop: no database, server or subprocess, no audit, and not the long sweeps over every mechanism.
QUICK := core frames kernels privacy/test_budget.py privacy/test_enumerate.py campaign/test_documents.py \
	campaign/test_wire.py campaign/test_vectors.py display planning engines mechanisms/test_registry.py \
	mechanisms/test_responses.py mechanisms/test_encoders.py mechanisms/test_size_law.py \
	mechanisms/test_canonical_options.py learn/test_questions.py learn/test_consistency.py protocols/test_base.py \
	protocols/test_declarations.py contract/test_golden.py

quick: install  ## the inner loop: what can be told in a minute and a half
	$(BIN)/python -m pytest $(WORKERS) -q --durations=5 $(addprefix tests/,$(QUICK))

check: install  ## style, types and the order of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: install  ## let ruff put code into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install system  ## speed as ratios: against NumPy, C, memory, and the collector against a bare route
	$(BIN)/keyveil bench --history docs/bench-history.jsonl
	$(BIN)/python -m keyveil.bench.page docs/bench-history.jsonl docs/bench.md

soak: install system  ## the full sizes of the specification; results go to docs/soak.md
	$(BIN)/python -m pytest tests -m soak --soak-results=docs/soak.md

# Changes in the code that no test notices: a sample of SAMPLE of them, drawn with SEED; no other begins after MINUTES.
# BY=names tries each on the test files that import its module, without first running the whole room.
MODULES ?= collector device learn protocols
SAMPLE  ?= 60
SEED    ?= 1
MINUTES ?= 15
BY      ?= calls

mutants: install system  ## which changes of the code no test notices; survivors go to docs/mutants.md
	$(BIN)/python -m tools.mutants $(MODULES) --sample $(SAMPLE) --seed $(SEED) --minutes $(MINUTES) --by $(BY)

docs: install  ## the documentation, into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

pictures: install  ## the pictures of the documentation, each by its command; some take minutes
	$(BIN)/python -m tools.pictures all

audit: install  ## known vulnerabilities of the locked versions; says so if the advisories cannot be reached
	$(BIN)/python -m tools.audit requirements.lock

sbom: install  ## what is installed in .venv, as a CycloneDX document
	@$(BIN)/python tools/sbom.py

# The build backend is no extra, so it is named here; the smaller lock has the versions of the larger one.
COMPILE = $(or $(UV),$(wildcard $(BIN)/uv),$(error make lock needs uv)) pip compile pyproject.toml - \
	--extra local --extra plots --extra server --universal --fork-strategy fewest --python-version 3.11 \
	--generate-hashes --quiet --no-header --no-annotate --no-emit-index-url --no-emit-find-links
BACKEND := hatchling>=1.26

lock:  ## pin the dependencies again (needs uv; UPGRADE=--upgrade moves to newer versions)
	echo "$(BACKEND)" | $(COMPILE) --extra spark --extra dev $(UPGRADE) --output-file requirements.lock
	echo "$(BACKEND)" | $(COMPILE) --constraint requirements.lock --output-file requirements-run.lock
