# Two commands set everything up by themselves: `make demo` and `make test`. CI (.ci/run) runs `make check` and more.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
FILES  ?= 200
TASKS  ?= 60
EVENTS ?= 60
MINUTES ?= 10
STAMP  := $(VENV)/.installed

# The tests start thousands of Python processes, and no two of them should compile the same modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-pool demo-events environment test collected check lint types contracts licences bench soak house mutants crds \
        wheel lock constraints release-tools image release audit clean

environment: $(STAMP)  ## everything that the other targets run

demo: $(STAMP)  ## real work through an embedded broker and cluster: make demo FILES=2000
	@$(BIN)/python -m deploy.demo --files $(FILES)

demo-pool: $(STAMP)  ## Celery workers as a Deployment that grows and shrinks with its queue: make demo-pool TASKS=200
	@$(BIN)/python -m deploy.demo.pool --tasks $(TASKS)

demo-events: $(STAMP)  ## signed webhooks, one Job per event, while parts are killed: make demo-events EVENTS=60
	@$(BIN)/python -m deploy.demo.events --events $(EVENTS)

# The examples of property tests are those of the newest commit's day: a run can be repeated, and another day's draws
# others. So does another number, and HYPOTHESIS_PROFILE=hunt, ten times as many.
SEED   ?= $(or $(shell git log -1 --format=%ad --date=format:%Y%m%d 2>/dev/null),20261127)
test: $(STAMP)  ## the test suite, five processes on two cores: make test ARGS="tests/unit -k beat"; ARGS="-n 0 --pdb" to debug
	$(BIN)/python -m pytest -n auto --hypothesis-seed=$(SEED) $(ARGS)

collected: $(STAMP)  ## import all tests, and compile them for the processes of a parallel run
	$(BIN)/python -m pytest --collect-only -qqq

check: lint types contracts licences test  ## everything that must be green before a change lands

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports

licences: $(STAMP)  ## of everything that an installation brings; fails for one that is not on the list
	$(BIN)/python -m tests.packaging.licences

bench: $(STAMP)  ## measurements, as a table and as JSON (build/bench.json)
	$(BIN)/python -m tests.benchmarks $(ARGS)

soak: $(STAMP)  ## work of every kind under faults of every kind, with an account: make soak MINUTES=60 ARGS="--seed 3"
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

house: $(STAMP)  ## how the source reads, in figures: make house ARGS=--names
	@$(BIN)/python -m tests.house $(ARGS)

# mutmut brings packages that the environment does without; it has its own, which also sees everything of that one.
MUTMUT := build/mutmut/bin/mutmut
$(MUTMUT): $(STAMP)
	$(PYTHON) -m venv build/mutmut
	build/mutmut/bin/pip install --quiet --disable-pip-version-check mutmut==3.8.1
	@echo "import site; site.addsitedir('$(abspath $(shell echo $(VENV)/lib/python3*/site-packages))')" \
		> $$(build/mutmut/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/environment.pth

mutants: $(STAMP) $(MUTMUT)  ## small changes that no test notices: make mutants ARGS="workers/controllers/batch --number 300"
	@$(BIN)/python -m tests.mutants $(ARGS)

crds: $(STAMP)  ## write the CRDs of our kinds into deploy/crds, and what chart and kustomization copy of other files
	$(BIN)/python -m workers.api.crds deploy/crds
	$(BIN)/python -m deploy.manifests.chart

# uv installs in a fifth of pip's time, but does not read pip's settings, which may name another index.
UV     := $(BIN)/uv pip install --python $(BIN)/python
NEEDED := -c constraints.txt -e '.[dev]'
# One stamp for the environment: remade when what it is made from changes.
$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found; Python 3.11 or newer is needed" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep '^uv==' constraints.txt)
	@$(UV) --quiet $(NEEDED) || { echo "uv could not install it; pip tries" >&2; $(BIN)/python -m pip install --quiet $(NEEDED); }
	@touch $@

# A build folder of before would hand files that are gone to the wheel.
wheel: $(STAMP)  ## build the wheel into dist
	rm -rf build/lib build/bdist.*
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# The same constraints and the same compiler make the same lock, on every platform and for every one.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes
COMPILE += --no-header --no-annotate --no-emit-index-url --no-emit-find-links
EXTRAS  := external github kafka mongodb mysql postgresql rabbitmq tracing
lock: $(STAMP)  ## lock what an installation brings, with hashes: pip install --require-hashes -r
	$(COMPILE) $(EXTRAS:%=--extra %) --constraint constraints.txt -o requirements.lock pyproject.toml
	$(COMPILE) --group pyproject.toml:release -o release.lock

release-tools: $(STAMP)  ## programs that make and judge releases, in an environment of their own (build/release)
	@$(BIN)/python -m deploy.release.tools

audit: release-tools  ## known vulnerabilities of what requirements.lock has, where their list can be had
	@$(BIN)/python -m tests.packaging.audit

# deploy/Dockerfile says what a base is. PIP_CONF names a pip.conf for an index of your own; NAME the image without its tag.
NAME     ?= penstock
BUILDER  ?= $(firstword $(foreach one,docker podman buildah,$(if $(shell command -v $(one)),$(one))))
RELEASED  = $(shell $(BIN)/python -c 'import penstock; print(penstock.__version__)')
image: wheel  ## build the image: make image BASE=python:3.13-slim-bookworm@sha256:...
	@echo "$(BASE)" | grep -Eq '^[^ @]+@sha256:[0-9a-f]{64}$$' || \
		{ echo "make image: BASE must name an image by its digest: BASE=python:3.13-slim-bookworm@sha256:..." >&2; exit 1; }
	@test -n "$(BUILDER)" || { echo "make image: none of docker, podman and buildah was found" >&2; exit 1; }
	DOCKER_BUILDKIT=1 $(BUILDER) build --file deploy/Dockerfile --tag $(NAME):$(RELEASED) --build-arg BASE=$(BASE) \
		$(if $(RUNTIME),--build-arg RUNTIME=$(RUNTIME)) --build-arg VERSION=$(RELEASED) \
		--build-arg REVISION=$$(git rev-parse HEAD) --build-arg CREATED=$$(git log -1 --format=%cI) \
		$(if $(filter docker,$(BUILDER)),,--format docker) $(if $(PIP_CONF),--secret id=pip$(comma)src=$(PIP_CONF)) .
comma := ,

release: $(STAMP)  ## the files of a release, from a clean checkout of its tag, into dist/penstock-VERSION
	@$(BIN)/python -m deploy.release

constraints: $(STAMP)  ## lock the versions that are installed now
	$(BIN)/python -m pip freeze --exclude-editable | grep -v '^penstock' > constraints.txt

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .import_linter_cache .hypothesis .penstock
