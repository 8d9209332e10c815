# Every target makes the virtual environment it needs; nothing is installed by hand.
# PYTHON=python3.12 make test   chooses another interpreter.

PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
RUNNABLE := $(VENV)/.runnable
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# The newest patch of each minor version that PyPI has.
SPARKS := 4.0.5 4.1.4 4.2.1 4.3.0
# A file's tests stay together, for what they share; each process has a Spark of its own.
IN_PARALLEL := -n auto --maxprocesses 4 --dist loadfile

ELSEWHERE := kafka or browser or stores or faults or soak or spark_long or spark_versions or newcomer
INTERPRETED := $(wildcard tests/format tests/kernels tests/codec tests/batch tests/arrow tests/interpreted)

.DEFAULT_GOAL := help
.PHONY: help demo test test-nojit test-bounds test-spark test-spark-versions test-kafka test-browser test-stores test-faults test-newcomer soak \
	lint types docs bench bench-guard captures constraints java

help: ## Show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

demo: $(or $(wildcard $(READY)),$(RUNNABLE)) ## A tour of the commands on the logs of a small cluster
	$(BIN)/ottla warm
	$(BIN)/ottla demo

test: $(READY) java ## All that needs only Python and Java
	$(PYTEST) $(IN_PARALLEL) -m 'not ($(ELSEWHERE))'
	$(MAKE) --no-print-directory test-nojit

test-nojit: $(READY) ## The kernels interpreted, so that an index out of bounds raises
	NUMBA_DISABLE_JIT=1 $(PYTEST) $(IN_PARALLEL) -m 'not (spark or $(ELSEWHERE))' $(INTERPRETED)
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m hypothesis tests/test_against_naive.py tests/schemas/test_avro.py

test-bounds: $(READY) ## The kernels compiled so that an index below 0 or too large raises
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/build/bounds $(PYTEST) $(IN_PARALLEL) -m 'not (spark or $(ELSEWHERE))' \
		$(INTERPRETED) tests/schemas tests/test_against_naive.py tests/test_corruption.py

test-spark: $(READY) java ## The longer tests on Spark
	$(PYTEST) -m spark_long

test-spark-versions: $(SPARKS:%=build/spark-%/.ready) java ## Spark 4.0 to 4.3, Spark Connect, and a standalone cluster that loses executors
	for version in $(SPARKS); do \
		echo "Spark $$version" && build/spark-$$version/bin/python -m pytest -m spark_versions tests/spark_versions || exit 1; \
	done

test-kafka: $(READY) java ## Against a real broker and its own classes, fetched from Maven Central
	$(PYTEST) -m kafka

test-browser: $(READY) ## The HTML report in Chromium
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || { \
		echo 'The browser tests need Chromium and its driver' \
			'(Debian: apt-get install chromium chromium-driver).' >&2; exit 2; }
	$(PYTEST) -m browser

test-stores: $(READY) java ## Object stores on loopback: S3 twice, Google's, Azure's
	@export PATH="$$PATH:/usr/local/go/bin"; for needed in mvn node npm go; do \
		command -v $$needed >/dev/null || echo "Without $$needed, the tests of the store that needs it" \
			'are skipped (Debian: apt-get install maven nodejs npm golang).' >&2; done
	$(PYTEST) -m 'stores and not soak'

test-faults: $(READY) java ## Full disks, killed processes, crashes at every system call
	@command -v strace >/dev/null || { test "$$(id -u)" = 0 && apt-get install -y -qq strace >/dev/null 2>&1; } || \
		echo 'Without strace (Debian: apt-get install strace) the crashes at system calls are skipped.' >&2
	$(PYTEST) -m faults

test-newcomer: $(READY) java ## A fresh clone and a fresh install, from the network; another Spark
	$(PYTEST) -m newcomer

soak: $(READY) java ## The full random counts of which the other targets run a tenth
	$(PYTEST) -m 'soak or hypothesis' --hypothesis-profile soak

lint: $(READY) ## Style, format, the direction of imports and code that nobody calls
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/vulture

types: $(READY) ## mypy --strict, also on a program that uses the package
	$(BIN)/mypy
	$(BIN)/mypy --strict examples/tables.py

docs: $(READY) ## The site of the manual, in build/site; a broken link or a missing page is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	$(BIN)/codespell

bench: $(READY) java ## Decode, encode, scan and verify against Kafka's Java classes
	$(BIN)/python -m benchmarks

BASE ?= HEAD~1
bench-guard: $(READY) java ## Ten short rows against the commit before, or BASE=...; by hand, on a quiet machine
	$(BIN)/python -m benchmarks.two_trees $(BASE) --guard

captures: $(READY) ## Renew docs/captures, what a terminal shows of commands on the demo's logs
	@command -v tmux >/dev/null || { echo 'Captures need tmux (Debian: apt-get install tmux).' >&2; exit 2; }
	PYTHONPATH=tests $(BIN)/python -m cli.captures

constraints: ## Renew constraints.txt from a clean install of the newest versions
	rm -rf build/newest
	$(PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet '.[spark,dev]'
	sed -n '/^#/p' constraints.txt > build/constraints.txt
	build/newest/bin/python -m pip freeze | sed '/^ottla /d' >> build/constraints.txt
	mv build/constraints.txt constraints.txt

# Running needs less than testing: the demo of a fresh clone waits for no tools of developers.
$(RUNNABLE): pyproject.toml constraints.txt
	$(call install,spark)

$(READY): pyproject.toml constraints.txt
	$(call install,spark$(comma)dev)

# Not pinned: PySpark, and what its Connect needs. Protobuf promises to run what the major version
# before it has generated: 5 made that of Spark 4.0, 6 that of 4.3.
build/spark-%/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv build/spark-$*
	sed -E '/^(pyspark|grpcio|grpcio-tools|protobuf|googleapis-common-protos)==/d' constraints.txt > build/spark-$*/constraints.txt
	build/spark-$*/bin/python -m pip install --quiet --disable-pip-version-check -c build/spark-$*/constraints.txt \
		-e '.[spark]' 'pyspark[connect]==$*' 'protobuf<7' pytest hypothesis pycryptodome
	@touch $@

comma := ,
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'Ottla needs Python 3.11 or newer: install it, then make PYTHON=python3.11 ...' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(1)]'
	@touch $@
endef

# Spark takes the java of JAVA_HOME first. Version strings are "17.0.15", or "1.8.0" for Java 8.
java:
	@found=$$("$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p'); \
	test "$${found:-0}" -ge 17 || { \
		echo 'Spark needs Java 17 or newer. Install a JDK (Debian: apt install openjdk-17-jdk-headless;' \
			'macOS: brew install openjdk@17) and set JAVA_HOME if it is not on the PATH.' >&2; exit 2; }
