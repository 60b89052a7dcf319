# Every target sets up its own .venv; only Python 3.11 (or newer) and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than there are cores: there is always a test that waits.
WORKERS ?= $(shell expr 1 + $$(getconf _NPROCESSORS_ONLN))
# Most of what a short process costs is compiling, and the tests start many.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-programs test-browser abuse fuzz fuzz-guided check fmt fmt-check lint types imports spell crds crds-clean roles metrics lock bench bench-upstream conformance fleet fleet-soak nightly controlplane test-controlplane e2e conformance-controlplane conformance-jobs conformance-record mutants clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{ printf "%-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(VENV)/.installed: pyproject.toml
	@echo "Installing into $(VENV); once, a minute or two"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev --editable ".[fast,local]"
	@touch $@

demo: $(VENV)/.installed ## A manager and two GPU workers on this machine, with a live screen
	$(BIN)/multiqueue demo

LONGER = tests/integration tests/properties tests/fleet tests/unit/simulation
test: $(VENV)/.installed ## The tests that need nothing but Python, and five minutes at most
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests $(LONGER:%=--ignore %)

.PHONY: test-longer
test-longer: $(VENV)/.installed ## Control planes in one process, properties of the engine, and simulations: also nothing but Python
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(LONGER)

test-programs: $(VENV)/.installed release-tools ## The demo, the image and an installation: whole programs, which need real seconds
	$(BIN)/python -m pytest -n 2 -m programs tests/integration

check: fmt-check lint types imports spell crds-clean test-longer test ## Everything that CI checks

fmt: $(VENV)/.installed ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --exit-zero --quiet .

fmt-check: $(VENV)/.installed
	$(BIN)/ruff format --check .

lint: $(VENV)/.installed
	$(BIN)/ruff check .

types: $(VENV)/.installed
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

imports: $(VENV)/.installed
	$(BIN)/lint-imports

spell: $(VENV)/.installed
	$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md docs changes multiqueue dispatchers tests

crds: $(VENV)/.installed ## Regenerate config/crd from the types
	$(BIN)/python -m multiqueue.api.crd config/crd

crds-clean: crds
	@git diff --exit-code --stat -- config/crd || (echo "config/crd is stale: commit the result of 'make crds'" && exit 1)

roles: $(VENV)/.installed ## Regenerate the roles for people in config/rbac, and the copy of config/worker-role in the program
	$(BIN)/python tools/generate_kind_roles.py config/rbac/kind_roles.yaml
	$(BIN)/python tools/generate_job_roles.py .
	cp config/worker-role/role.yaml multiqueue/projection/worker_role.yaml

.PHONY: spec
metrics: $(VENV)/.installed ## Regenerate docs/metrics.md from the table of metrics
	$(BIN)/python -m tools.generate_metrics_page

.PHONY: reference
reference: $(VENV)/.installed ## Regenerate docs/reference and the snapshots of help texts and tables: commands, configuration, kinds, names, conditions, Events, gates and roles
	$(BIN)/python -m tools.reference
	UPDATE_SNAPSHOTS=1 $(BIN)/python -m pytest -q tests/unit/cli/test_snapshots.py

.PHONY: rules
rules: $(VENV)/.installed ## Regenerate config/prometheus/rules.yaml and config/grafana; check rules and alerts with promtool (Go builds it, once)
	$(BIN)/python -m tools.generate_rules
	$(BIN)/python -m tools.generate_boards
	! command -v go > /dev/null || $(BIN)/python -m tests.controlplane build promtool
	$(BIN)/python -m pytest -n 0 -q -ra -m controlplane tests/controlplane/test_promtool.py

spec: $(VENV)/.installed ## Regenerate docs/spec/index.md: which modules and tests hold each rule
	$(BIN)/python tools/spec_index.py docs/spec/index.md

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
lock: $(VENV)/.installed ## Pin what the Dockerfile installs to the newest versions that fit
	$(BIN)/python -m pip install --quiet --group lock
	$(LOCK) --upgrade --extra fast --extra kinds --output-file requirements.lock pyproject.toml
	$(LOCK) --upgrade --group image --output-file requirements-build.lock

.PHONY: release release-tools
release-tools: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --group release

release: release-tools ## Everything of a release but publishing it, in dist/, from the last commit; the version is that of its tag
	$(BIN)/python -m tools.release dist

.PHONY: docs
docs: $(VENV)/.installed ## Build the documentation site in build/site; a page without a place, or a link that leads nowhere, is an error
	$(BIN)/python -m pip install --quiet --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m tools.site build/site

test-browser: $(VENV)/.installed ## The dashboard of the demo in Chromium; SCREENSHOTS=folder keeps pictures
	$(BIN)/python -m pip install --quiet --group browser
	$(BIN)/python -m pytest -n 0 -m browser tests/browser

abuse: $(VENV)/.installed ## Attack a running manager from outside, as the owner of a job, a queue or a worker could
	$(BIN)/python -m pytest -n 0 -m abuse tests/abuse

fuzz: $(VENV)/.installed ## Try every parser of what others write with random texts, for long; make test does so shortly
	$(BIN)/python -m pytest -n $(WORKERS) -m fuzz --timeout 3600 tests/fuzz

fuzz-guided: $(VENV)/.installed ## Have atheris look for texts and files that reach new code of their readers; MINUTES=n (10)
	$(BIN)/python -m pip install --quiet --group guided
	$(BIN)/python -m tests.fuzz.guided -max_total_time=$$((60 * $(or $(filter-out 0,$(MINUTES)),10)))

bench: $(VENV)/.installed ## Benchmarks with the figures of the goals
	$(BIN)/python -m pytest -n 0 -s -m bench --timeout 900 tests/bench

GENERATOR ?=
SCALE ?=
WORKLOADS ?= $(if $(SCALE),,3000)
ROUNDS ?= 2
bench-upstream: $(VENV)/.installed ## Upstream's benchmark with ours and upstream's manager, 3,000 Workloads of each generator in three quarters of an hour: GENERATOR=baseline,large-scale,tas or multikueue SCALE=1 (complete, hours) or 1/10 or WORKLOADS=n ROUNDS=n OUT=folder (docs/performance.md)
ifeq ($(GENERATOR),multikueue)
	$(BIN)/python -m pytest -n 0 -s -m bench --timeout 1800 tests/bench/test_fleet_speed_bench.py -k upstream
else
	BENCH_COMMAND="$(strip make $@ $(filter-out OUT=%,$(MAKEOVERRIDES)))" $(BIN)/python -m tests.bench.upstream --rounds $(ROUNDS) --page docs/performance.md \
		$(if $(GENERATOR),--generator $(shell echo '$(GENERATOR)' | tr , ' ')) $(if $(SCALE),--scale $(SCALE)) $(if $(WORKLOADS),--workloads $(WORKLOADS)) $(if $(OUT),--out $(OUT))
endif

conformance: $(VENV)/.installed ## Drive recorded scenarios through a real manager over its API
	$(BIN)/python -m pytest -n 2 -m conformance tests/conformance

SEED ?=
SEEDS ?=
MINUTES ?= 0
fleet: $(VENV)/.installed ## A simulated fleet under faults, 1,000 times, and with broken rules: SEEDS=first-last, or one with all that happens: SEED=n
	$(BIN)/python -m tests.fleet $(if $(SEED),--seed $(SEED)) $(if $(SEEDS),--seeds $(SEEDS))
	$(if $(SEED)$(SEEDS),,$(MAKE) broken-rules)

.PHONY: broken-rules
broken-rules: $(VENV)/.installed ## The longer situations of the simulated fleet, and broken rules of the manager: some run must find each
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --timeout 900 -m fleet tests/fleet

fleet-soak: $(VENV)/.installed ## The same with new seeds until stopped, or MINUTES=n; SEEDS=first
	$(BIN)/python -m tests.fleet --minutes $(MINUTES) --seeds $(or $(SEEDS),100001)

SOAK_MINUTES = $(or $(filter-out 0,$(MINUTES)),30)
.PHONY: soak
soak: $(VENV)/.installed ## A manager and three workers as processes, jobs of all kinds and faults: is it flat, is no job lost? MINUTES=n (30)
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES)

NIGHTLY_MINUTES = $(or $(filter-out 0,$(MINUTES)),30)
nightly: $(VENV)/.installed ## Look for new faults: all properties with random seeds again and again, then fleets with new seeds; MINUTES=n for each (30)
	end=$$(($$(date +%s) + 60 * $(NIGHTLY_MINUTES))); while [ $$(date +%s) -lt $$end ]; do \
		$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile=explore tests/properties || exit 1; done
	$(BIN)/python -m tests.fleet --minutes $(NIGHTLY_MINUTES) --seeds $$(date +%s)

controlplane: $(VENV)/.installed ## Build a real control plane with Go, once, into a cache outside of here
	$(BIN)/python -m tests.controlplane build

test-controlplane: $(VENV)/.installed ## The same promises on real control planes, and some recorded scenarios (make controlplane first)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "controlplane and not e2e and not conformance" -ra -k "not decides_as_recorded or afs" tests/controlplane

e2e: $(VENV)/.installed ## Every step over a manager and two workers, upstream Kueue on them, on real control planes
	$(BIN)/python -m pytest -n 0 -v -m e2e -ra --durations=0 tests/controlplane

conformance-controlplane: $(VENV)/.installed ## All recorded scenarios on real control planes: a quarter of an hour on a quiet machine
	$(BIN)/python -m pytest -n 3 -m controlplane -ra -k decides_as_recorded tests/controlplane

KIND ?=
ONLY ?=
SHOW ?=
WHY ?=
ACCEPT ?=
OUT ?=
conformance-jobs: $(VENV)/.installed ## Recorded cases of every job kind on a real control plane: KIND=jobset,rayjob ONLY=text SHOW=n WHY=n (tests/conformance/README.md)
	KIND=$(KIND) ONLY=$(ONLY) SHOW=$(SHOW) WHY=$(WHY) ACCEPT=$(ACCEPT) $(BIN)/python -m pytest -n 0 -s -m conformance -ra $(if $(OUT),--basetemp=$(OUT)) tests/controlplane/test_jobs.py

SCENARIOS ?= tests/conformance/data/scenarios/*.json
conformance-record: $(VENV)/.installed ## Record what upstream Kueue decides: SCENARIOS=files OUT=folder
	$(BIN)/python -m tests.controlplane record --out $(or $(OUT),recorded) $(SCENARIOS)

mutants: $(VENV)/.installed ## Change the engine in thousands of ways and list what no test notices
	$(BIN)/python -m pip install --quiet --group mutation
	$(BIN)/mutmut run > mutants.log 2>&1 || (tail -5 mutants.log && exit 1)
	$(BIN)/mutmut results

clean: ## Remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis mutants mutants.log
