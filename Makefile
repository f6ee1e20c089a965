# `make help` lists the targets.
.DEFAULT_GOAL := help
UV := $(shell command -v uv || echo .tools/bin/uv)
RUN := $(UV) run --locked --no-sync
PYTEST := $(RUN) pytest -n logical --dist loadfile --no-loadscope-reorder
DEMO := build/demo
STUDIES := build/studies
ENTRIES := spark_jobs/compiled/entries.jsonl
WAREHOUSE := $(DEMO)
NETWORKS := infra/networks.toml
PORT := 8088
SIZES := 10 40 160 400

# Python keeps the libraries' byte code. Without it, each process compiles them again for 3 s.
unexport PYTHONDONTWRITEBYTECODE

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 13

demo: .venv/demo ## Run the main job on the captures in tests/data: tables on screen, figures in build/demo/report.html
	@$(RUN) giscope run --warehouse $(DEMO) --networks infra/networks.toml tests/data/captures

airflow: .venv/ready ## Start Airflow on loopback, with the main job as a daily DAG on the captures in tests/data
	@sh infra/airflow/setup.sh
	@sh infra/airflow/demo.sh "$${AIRFLOW_HOME:-build/airflow}/landing"
	@AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION=False sh infra/airflow/start.sh

dashboards: .venv/ready ## Start Superset on loopback; for your own data: WAREHOUSE=W NETWORKS=networks.toml PORT=8088
	@[ $(WAREHOUSE) != $(DEMO) ] || [ -e $(DEMO)/warehouse.duckdb ] || $(MAKE) -s demo
	@sh infra/superset/start.sh $(WAREHOUSE) $(NETWORKS) $(PORT)

alerts: ## Check Superset's alerts and send its reports, beside make dashboards: WAREHOUSE=W PORT=8088
	@sh infra/superset/alerts.sh $(WAREHOUSE) $(PORT)

up: ## Build and start all services in containers, with docker compose: docs/deploy.md
	@sh infra/up.sh

down: ## Stop these containers; the data stays
	@docker compose --profile zeek --profile object-store down

test: .venv/ready ## Run the quick tests, on all cores: some minutes
	@$(PYTEST)

test-all: test ## Then run the tests that start other programs or whole runs, too: what CI runs
	@$(PYTEST) -m 'integration and not slow'

slow: .venv/ready ## Run all tests, also the long ones and the studies
	@$(RUN) pytest -m ''

compose-test: .venv/ready ## Start docker-compose.yml for real, and check what runs: root, Debian or Ubuntu; 10 to 30 minutes
	@$(RUN) pytest -sv -m '' tests/programs/compose/check_stack.py

wheel: .venv/ready ## Build a wheel for this platform and version of Python, with compiled estimators: build/*.whl
	@folder=$$($(RUN) python -m spark_jobs.engine) && \
	GISCOPE_MACHINE_CODE=$$folder $(UV) build -q --wheel --out-dir build

kubernetes-check: .venv/ready ## Render the charts of Airflow and Superset with infra/kubernetes, and check the manifests
	@$(RUN) python -m tests.programs.kubernetes_check

lint: .venv/ready ## Check style, types, imports, dependencies, words, and known vulnerabilities
	@$(RUN) ruff check .
	@$(RUN) ruff format --check -q .
	@$(RUN) mypy
	@$(RUN) lint-imports --no-cache
	@$(RUN) deptry .
	@$(RUN) python -m tests.programs.words
	@-$(RUN) python infra/audit.py

audit: .venv/ready ## Fail if a locked package has a known vulnerability; make lint only reports it
	@$(RUN) python infra/audit.py

accuracy: .venv/ready ## Compare inferred losses with the lab's ground truth
	@$(RUN) python -m tests.programs.accuracy

studies: .venv/ready ## Repeat the four studies on the lab's captures, beside their papers: docs/studies.md
	@$(RUN) giscope run --warehouse $(STUDIES) --networks tests/programs/studies/networks.toml tests/data/studies/captures
	@$(RUN) python -m tests.programs.studies $(STUDIES) > $(STUDIES)/studies.md
	@cp $(STUDIES)/studies.md docs/studies.md
	@cat docs/studies.md

record-studies: .venv/ready ## Record the studies' captures and ground truth again (root, Linux; 45 minutes)
	@$(RUN) python -m tests.programs.lab tests/data/studies

entries: .venv/ready ## List again the functions that a first run compiles
	@: > $(ENTRIES)
	@caches=$$(mktemp -d) && XDG_CACHE_HOME=$$caches && export XDG_CACHE_HOME && \
	$(RUN) giscope run --warehouse $$caches/warehouse --networks infra/networks.toml tests/data/captures && \
	$(RUN) python -m spark_jobs.compiled.entries && rm -r $$caches

docs: .venv/ready ## Write what docs/ has from the code anew: schema.md, reference.md, the SQL of queries.md
	@$(RUN) giscope schema --format markdown > docs/schema.md
	@$(RUN) python -m typer spark_jobs.commands.cli utils docs --name giscope --title Commands > docs/reference.md
	@$(RUN) python -m tests.programs.queries_page

bench: .venv/ready ## Measure ingest and flows on 50 million packets, beside Tstat, tcptrace and tshark
	@$(RUN) python -m tests.programs.bench.bench
	@$(RUN) python -m tests.programs.bench.peers
	@$(RUN) python -m tests.programs.bench.quic
	@$(RUN) python -m tests.programs.bench.uneven
	@$(RUN) python -m tests.programs.bench.growth
	@$(RUN) python -m tests.programs.bench.zeek_log
	@$(RUN) python -m tests.programs.bench.zeek_scripts

bench-scale: .venv/ready ## Measure every stage from 10 to 400 million packets, and skew: docs/scale.md; SIZES="10 40" limits the sizes
	@SIZES="$(SIZES)" $(RUN) python -m tests.programs.bench.scale

profile: .venv/ready ## Measure the time by function, from capture to flows
	@$(RUN) python -m tests.programs.bench.profile

clean: ## Remove everything that the other targets made
	rm -rf build .venv .venv-airflow .venv-superset .tools

.venv/demo: uv.lock pyproject.toml infra/setup.sh
	@sh infra/setup.sh --no-dev --inexact
	@touch $@

.venv/ready: uv.lock pyproject.toml infra/setup.sh
	@sh infra/setup.sh --all-extras
	@touch .venv/demo $@

.PHONY: docs help demo airflow dashboards alerts up down test test-all slow compose-test kubernetes-check lint audit accuracy studies record-studies entries bench bench-scale profile clean
