# The whole of sparkflow from a fresh machine: Python 3.11 or newer and make are enough. `make` alone lists the targets.

CLUSTER ?= spark
MASTER ?= local[2]
ARGS ?=

ifeq ($(filter spark dask local,$(CLUSTER)),)
$(error CLUSTER is '$(CLUSTER)': it can be spark, dask or local)
endif

BIN := .venv/bin
# Spark's scripts, the JVM and the Python workers all have to meet this environment, not another one on the machine.
unexport SPARK_HOME
SPARK_ENV = PATH="$(CURDIR)/$(BIN):$$PATH" \
	PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python" PYSPARK_DRIVER_PYTHON="$(CURDIR)/$(BIN)/python"

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tasks are processes: where no bytecode may be kept, each of them compiles every module anew before it begins.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help train test slow gpu lint fmt oracle lowest soak clean
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

train: .venv/.stamp ## train the flights example: CLUSTER=spark|dask|local, ARGS="--epochs 3 ...", MASTER=local[8]
ifeq ($(CLUSTER),spark)
	@echo "==> spark-submit --master '$(MASTER)' examples/flights.py --cluster spark $(ARGS)"
	@home=$$($(BIN)/python -m sparkflow_connectors.java) && export JAVA_HOME="$${home:-$$JAVA_HOME}" && \
	$(SPARK_ENV) $(BIN)/spark-submit --master '$(MASTER)' --conf spark.log.level=WARN examples/flights.py --cluster spark $(ARGS)
else
	@echo "==> python examples/flights.py --cluster $(CLUSTER) $(ARGS)"
	@$(BIN)/python examples/flights.py --cluster $(CLUSTER) $(ARGS)
endif

# Two processes: one runs the tests of Spark, which mostly wait, and the other all else.
test: .venv/.stamp ## run the tests, but for slow and soak ones (ARGS="-k name"; ARGS="-n 0" in one process)
	@echo "==> pytest"
	@$(BIN)/python -m pytest -n 2 --no-loadscope-reorder $(ARGS)

slow: .venv/.stamp ## run the tests that `make test` leaves out for their time: ten minutes more
	@echo "==> pytest -m slow"
	@$(BIN)/python -m pytest -n 2 --no-loadscope-reorder -m "slow and not soak" $(ARGS)

# Left out are folders whose tests say little of kernels, and those that lead other processes.
gpu: .venv/.stamp ## run the tests of graphs with every node on a GPU, or on a stand-in for one (ARGS="-k name")
	@echo "==> pytest, on GPUs"
	@$(BIN)/python -m pytest -n 2 -p tests.everywhere_on_gpus $(addprefix tests/,session train layers losses metrics \
		keras ops grads saved_model contrib estimator feature_column distributions runtime/worker) $(ARGS)

lint: .venv/.stamp ## ruff's rules, ruff's format, mypy
	@echo "==> ruff check" && $(BIN)/ruff check .
	@echo "==> ruff format --check" && $(BIN)/ruff format --check .
	@echo "==> mypy" && $(BIN)/mypy

fmt: .venv/.stamp ## let ruff format the code and mend what it can
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

# Of Keras' files those in HDF5 too: h5py comes with TensorFlow.
oracle: .venv-oracle/.stamp ## run every op and whole programs in TensorFlow as well, and compare (ARGS="-k Softmax")
	@echo "==> pytest tests/oracle, with TensorFlow"
	@OMP_NUM_THREADS=1 .venv-oracle/bin/python -m pytest tests/keras/test_saving.py tests/oracle $(ARGS)

lowest: .venv-lowest/.stamp ## run the unit tests on the oldest packages we promise (needs Python 3.11)
	@echo "==> pytest, with the versions of conf/lowest.txt"
	@.venv-lowest/bin/python -m pytest -m "not cluster and not slow and not soak" $(ARGS)

soak: .venv/.stamp ## run the soak tests, for as long as they take
	@echo "==> pytest -m soak"
	@$(BIN)/python -m pytest -m soak --timeout 0 $(ARGS)

clean: ## remove caches and builds, but neither environments nor checkpoints
	rm -rf build dist spark-warehouse metastore_db derby.log dask-worker-space
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find sparkflow runtime connectors examples tests -type d -name __pycache__ -prune -exec rm -rf {} +

# A folder that merely is called sparkflow (such as this checkout, seen from the folder above) must not hide the package:
# sys.path is searched before the hook of an editable install.
on_path = printf '%s\n' '$(CURDIR)' '$(CURDIR)/runtime' '$(CURDIR)/connectors' \
	> "$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/sparkflow-checkout.pth"

# The stamps hold a hash of what was installed from, so that a checkout or a touch alone installs nothing anew.
# $(1): the environment, $(2): the interpreters to try, $(3): the versions it takes, as a Python condition on v,
# $(4): the same in words, $(5): what pip installs, $(6): the files it depends on, $(7): the variable of $(2).
define make_venv
	@found=; for python in $(2); do \
	    if $$python -c 'import sys; v = sys.version_info[:2]; sys.exit(not ($(3)))' >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	[ -n "$$found" ] || { echo "error: sparkflow needs Python $(4); tried $(2). Install it, or say make $(7)=/path/to/python" >&2; exit 1; }; \
	hash=$$($$found -c 'import hashlib, sys; print(hashlib.sha256(b"".join(open(f, "rb").read() for f in sys.argv[1:])).hexdigest())' $(6)); \
	if [ "$$(cat $(1)/.stamp 2>/dev/null)" = "$$hash" ] && $(1)/bin/python -c '' 2>/dev/null; then touch $(1)/.stamp; exit 0; fi; \
	if ! $(1)/bin/python -c '' 2>/dev/null; then \
	    echo "==> making $(1) with $$($$found --version)"; \
	    $$found -m venv --clear $(1) || { rm -rf $(1); exit 1; }; \
	fi; \
	echo "==> installing sparkflow and its packages into $(1) (once: 700 MB to download, 1.4 GB on disk)"; \
	$(1)/bin/python -m pip install $(5) && $(call on_path,$(1)) && echo "$$hash" > $(1)/.stamp && echo "==> $(1) is ready"
endef

PYTHON ?= python3 python3.13 python3.12 python3.11
PYTHON_LOWEST ?= python3.11 python3

.venv/.stamp: pyproject.toml
	$(call make_venv,.venv,$(PYTHON),v >= (3$(comma) 11),3.11 or newer,-e '.[test]',pyproject.toml,PYTHON)
	@$(BIN)/python -m sparkflow compile || echo "==> going on without them: numpy does their work"

.venv-lowest/.stamp: pyproject.toml conf/lowest.txt
	$(call make_venv,.venv-lowest,$(PYTHON_LOWEST),v == (3$(comma) 11),3.11,-e '.[test$(comma)notebook]' -c conf/lowest.txt,$^,PYTHON_LOWEST)

.venv-oracle/.stamp: pyproject.toml conf/oracle.txt
	$(call make_venv,.venv-oracle,$(PYTHON),v >= (3$(comma) 11),3.11 or newer,-e . -r conf/oracle.txt,$^,PYTHON)

comma := ,
