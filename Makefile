# Everything a new user needs: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo demo-stack generated test test-tools stack-tools mutants lint soak bench clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(VENV)/.runtime: pyproject.toml
	@tools/make-venv.sh $(PYTHON) $(VENV)
	@echo 'Installing into $(VENV), once ...'
	@$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: pyproject.toml
	@tools/make-venv.sh $(PYTHON) $(VENV)
	@echo 'Installing into $(VENV), once ...'
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.runtime

demo: $(VENV)/.runtime ## See it work: a fake batch that loses its slots, and the exporter on its ledger (DEMO_SECONDS=20 ends it)
	@$(BIN)/python -m preempt_exporter.demo

demo-stack: $(VENV)/.runtime stack-tools ## The same with Prometheus, Alertmanager and control: an alert drains the lane (DEMO_SECONDS=60 ends it)
	@$(BIN)/python -m tools.demo_stack

generated: $(VENV)/.dev ## Write anew what is generated: dashboard, Kubernetes manifests, parts of docs/
	$(BIN)/python -m dashboards.generate
	$(BIN)/python deploy/kubernetes/generate.py
	$(BIN)/python tools/generate_docs.py

test: $(VENV)/.dev test-tools ## Install what the tests need and run all of them
	$(BIN)/pytest -n 2 --dist loadfile -m "not soak"

SOAK_SECONDS ?= 300

soak: $(VENV)/.dev test-tools ## The long runs: a fuzzer on the decoder, then the long tests
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,soak]'
	$(BIN)/python -m tests.ledger.fuzz_decode -max_total_time=$(SOAK_SECONDS)
	HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m soak

bench: $(VENV)/.dev test-tools ## Measure, side by side with peers, and print ratios
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	$(BIN)/python bench/run.py
	$(BIN)/python bench/spend.py
	$(BIN)/python bench/bench_growth.py

test-tools: ## Install the programs that the tests run (tools/test-packages.txt), or say which are missing
	@tools/install-packages.sh $$(sed 's/#.*//' tools/test-packages.txt)
	@tools/fetch-rule-engines.sh

stack-tools: ## Install the two programs that demo-stack starts beside ours, unless they are on the PATH
	@command -v prometheus >/dev/null || tools/install-packages.sh prometheus
	@command -v alertmanager >/dev/null || command -v prometheus-alertmanager >/dev/null || \
		tools/install-packages.sh prometheus-alertmanager

mutants: $(VENV)/.dev test-tools ## Change every rule in every place, one at a time, and see that a test notices
	$(BIN)/python tools/run_mutants.py

lint: $(VENV)/.dev ## ruff, mypy --strict and the floor plan
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean: ## Remove what the other targets made
	rm -rf $(VENV) .demo dist build
