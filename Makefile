# Every target works on a fresh checkout: the first one that needs it creates .venv.
#   make PYTHON=/path/to/python3.11 test      choose the interpreter
#   make ARGS="tests/protocol -x" test        pass arguments to pytest

VENV := .venv
BIN := $(VENV)/bin
EXTRAS := pipeline,report,qt,monitor
DEMO_EXTRAS := pipeline,report,monitor
# Named after the directory, so that a moved or copied checkout builds an environment of its own.
PLACE := $(shell pwd -P | cksum | cut -d ' ' -f 1)
STAMP := $(VENV)/ready-$(PLACE)
# What the demo needs and nothing else; whoever has the whole environment has that, too.
DEMO := $(if $(wildcard $(STAMP)),$(STAMP),$(VENV)/demo-$(PLACE))
COMPILED := transport/lane.c transport/stream.c transport/hmac.h
PYTHONS := $(or $(PYTHON),python3.11 python3.12 python3.13 python3.14 python3 python)
ARGS :=
BENCHMARKS := calls notifications discovery
# What notifications are compared with; where one cannot be installed, the others are measured without it.
RIVALS := 'iceoryx2>=0.10' 'ezmsg>=3.9' 'eclipse-ecal>=6.1' 'eclipse-zenoh>=1.10'

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
unexport PYTHONPATH PYTHONHOME
unexport PYTHONDONTWRITEBYTECODE  # hundreds of processes are started, and each would compile everything

.PHONY: coverage docs help demo bench test test-all test-rest matrix check format wheels wheel-test clean headers java python
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:
	@echo "make demo         the lab demo: four instruments, a recorder, Spark, a report (needs Java 17)"
	@echo "make bench        how fast calls and notifications are beside other libraries (half an hour)"
	@echo "make test         the tests, about six minutes (those of the pipeline need Java 17)"
	@echo "make test-all     those, and what takes long: kills, clusters, networks, demos, long properties"
	@echo "make matrix       calls and notifications with every Python from 3.11 on that is here"
	@echo "make check        format, lint, types, layer contracts, the house's rules"
	@echo "make coverage     how much of the pure layers their tests reach"
	@echo "make docs         the manual, at http://127.0.0.1:8000 until Ctrl-C"
	@echo "make format       rewrite the code in the project's format"
	@echo "make wheels       build the source archive, the wheel with the compiled lane, and a pure one"
	@echo "make wheel-test   build the wheel and test it in an environment of its own"
	@echo "make clean        remove everything that these commands made"


# Sets $$python to the first usable interpreter.
find_python = python=; for each in $(PYTHONS); do \
	if "$$each" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then python=$$each; break; fi; done

# True when the Java that Spark would start is 17 or newer.
java_works = test "$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 \
	| sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1 | grep . || echo 0)" -ge 17

define say_java
	echo "Java 17 or newer was not found ($${JAVA_HOME:+JAVA_HOME is $$JAVA_HOME; without it, }PATH is searched). Install it:"; \
	echo "    Debian, Ubuntu:  apt-get install openjdk-17-jre-headless"; \
	echo "    Fedora:          dnf install java-21-openjdk-headless"; \
	echo "    macOS:           brew install openjdk@17"; \
	echo "or set JAVA_HOME to the Java that you have."
endef

python:
	@$(find_python); test -n "$$python" || { \
	echo "No Python 3.11 or newer with its venv module was found (tried: $(PYTHONS)). Install it:"; \
	echo "    Debian, Ubuntu:  apt-get install python3 python3-venv"; \
	echo "    Fedora:          dnf install python3"; \
	echo "    macOS:           brew install python@3.11"; \
	echo "or name the one that you have: make PYTHON=/path/to/python3.11 ..."; \
	exit 1; } >&2

headers:
	@$(find_python); "$$python" -c 'import os, sysconfig; os.stat(sysconfig.get_paths()["include"] + "/Python.h")' \
	2>/dev/null || { echo "Python.h was not found; the compiled lane would be left out: apt-get install python3-dev"; \
	exit 1; } >&2

java:
	@$(java_works) || { $(say_java); exit 1; } >&2

# Installs the package with its extras $(1), and the dependency group $(2), into the environment, which is made when
# there is none of this directory.
define install
	@$(find_python); if $(BIN)/python -c '' 2>/dev/null && ls $(VENV)/*-$(PLACE) >/dev/null 2>&1; \
	then echo "==> bringing $(VENV) up to date"; else \
	echo "==> creating $(VENV) with $$python ($$("$$python" --version))"; \
	rm -rf $(VENV) && "$$python" -m venv $(VENV); fi
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@echo "==> installing pzc and what it needs into $(VENV); the first time takes minutes"
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --editable '.[$(1)]' --group $(2)
	@mkdir -p $(VENV)/types && ln -sfn ../.. $(VENV)/types/pzc
	@touch $@
endef

$(STAMP): pyproject.toml $(COMPILED) | python
	$(call install,$(EXTRAS),dev)

$(VENV)/demo-$(PLACE): pyproject.toml $(COMPILED) | python
	$(call install,$(DEMO_EXTRAS),demo)

demo: java $(DEMO)
	@echo "==> the lab demo; Ctrl-C ends it at any time"
	@$(BIN)/python -m examples.lab.demo $(ARGS)

bench: $(STAMP)
	@echo "==> installing what pzc is compared with"
	@$(BIN)/python -m pip install --quiet --group bench
	@for each in $(RIVALS); do $(BIN)/python -m pip install --quiet "$$each" \
	|| echo "==> $$each cannot be installed here and is left out"; done
	@status=0; for each in $(BENCHMARKS); do \
	echo "==> $$each, beside other libraries; best on an idle machine"; \
	$(BIN)/python -m benchmarks.$$each $(ARGS) || status=$$?; done; exit $$status

test: $(STAMP)
	@$(java_works) || { echo; echo "!!! THE PIPELINE TESTS ARE SKIPPED"; $(say_java); echo; } >&2
	@echo "==> tests"
	@$(BIN)/python -P tests/gate.py quick $(ARGS)

test-all: test test-rest

test-rest: $(STAMP)
	@echo "==> kills, clusters, networks, demos, long properties"
	@$(BIN)/python -P tests/gate.py rest $(ARGS)

# pyenv keeps its interpreters beside the path.
matrix: $(STAMP)
	@rm -rf build/lib* build/bdist*
	@PATH="$$PATH$$(printf ':%s' $(HOME)/.pyenv/versions/*/bin)" $(BIN)/nox --noxfile tests/noxfile.py --session matrix $(if $(ARGS),-- $(ARGS))

check: $(STAMP)
	@echo "==> format"
	@$(BIN)/ruff format --check .
	@echo "==> lint"
	@$(BIN)/ruff check .
	@echo "==> types"
	@$(BIN)/basedpyright
	@echo "==> layer contracts"
	@$(BIN)/lint-imports --no-logo
	@echo "==> the house: sizes, docstrings, circles of files, packages"
	@$(BIN)/pytest -q -p no:cacheprovider tests/test_house.py tests/test_ratchet.py
	@echo "==> the contract's tests know public names only"
	@$(BIN)/python -P tests/contract/rules.py
	@echo "==> the manual"
	$(link_api)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Holds the folders of the package and nothing else: whoever reads its docstrings reads all that is there.
API := build/api/pzc
define link_api
	@rm -rf $(API) && mkdir -p $(API) && for each in __init__.py */__init__.py; do \
	ln -sfn "../../../$${each%/__init__.py}" $(API)/; done
endef

docs: $(STAMP)
	$(link_api)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --open --dev-addr 127.0.0.1:8000

# Lines of the pure layers; their tests alone, with few examples: each line costs many times as much.
coverage: $(STAMP)
	@$(BIN)/pytest -q -p no:cacheprovider -n auto --tier quick tests/protocol tests/delivery tests/discovery \
	--cov=protocol --cov=delivery --cov=discovery --cov-report=term:skip-covered --cov-fail-under=95 $(ARGS)

format: $(STAMP)
	@$(BIN)/ruff check --select I --fix .
	@$(BIN)/ruff format .

# The pure one is made of the source archive without what names the C files.
wheels: $(STAMP)
	@rm -rf dist build/pure && mkdir -p build/pure
	@$(BIN)/python -m build --outdir dist --config-setting=--build-option=--py-limited-api=cp311
	@tar -xzf dist/pzc-*.tar.gz -C build/pure --strip-components 1
	@sed -i '/^# Optional: without a compiler/,/^\[tool.pytest/{/^\[tool.pytest/!d}' build/pure/pyproject.toml
	@$(BIN)/python -m build --wheel --outdir dist build/pure
	@ls dist

# Run from inside the second environment, where nothing of the checkout is on the path.
wheel-test: $(STAMP)
	@echo "==> building the source archive and, from it, the wheel"
	@rm -rf dist $(VENV)/wheel
	@$(BIN)/python -m build --outdir dist
	@echo "==> installing the wheel into an environment of its own"
	@$(BIN)/python -m venv $(VENV)/wheel
	@$(VENV)/wheel/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(VENV)/wheel/bin/python -m pip install "$$(echo dist/pzc-*.whl)[$(EXTRAS)]" --group dev
	@echo "==> tests against the wheel"
	@cd $(VENV)/wheel && bin/python -P ../../tests/gate.py wheel

clean:
	rm -rf transport/*.so $(VENV) .nox build dist pzc.egg-info demo-report .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
