# Everything that is done with this tree, for people and for CI. `make help` lists it.

.DEFAULT_GOAL := help
.PHONY: help run build test test-fast test-clients interop sim faults bench lint fmt doc deny ci clean

CARGO ?= cargo

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

run: ## A coordinator on 127.0.0.1:7625, its console on http://127.0.0.1:7626, with the embedded store (ARGS="--store redis://..." for another)
	$(CARGO) run --release --locked -- serve --admin-listen 127.0.0.1:7626 $(ARGS)

build: ## The binary, for debugging
	$(CARGO) build --locked

test: ## All tests; installs redis-server if it is missing, and names the client toolchains that are
	scripts/test

test-fast: ## What takes seconds: unit tests, behaviour in one process, and the checks of the tree
	$(CARGO) test --locked --no-fail-fast --lib --test it --test tidy

test-clients: ## Only the tests with clients in other languages
	scripts/test --clients

interop: ## The tests with the real Redisson; needs Java and Maven, and names what is missing
	scripts/test --interop

sim: ## The simulation: SEED=n replays one seed, SEEDS=n runs that many
	$(CARGO) test --locked --test simulation -- --nocapture

faults: ## What breaks while locks are taken, for FAULT_SECONDS (60) each: the table in docs/robustness.md. ROW=name for one
	FAULT_SECONDS=$(or $(FAULT_SECONDS),60) $(CARGO) test --locked --test faults -- --nocapture --test-threads=1 $(ROW)

bench: ## Speed against anchors and peers: docs/performance.md. BENCH_ROUNDS=n (5), BENCH_SECONDS=n (5) for each measurement
	scripts/bench

lint: ## Format and lints; every warning is an error
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --workspace --test interop -- -D warnings

fmt: ## Formats the Rust
	$(CARGO) fmt --all

doc: ## The documentation of the crate, in target/doc
	$(CARGO) doc --locked --no-deps --document-private-items

deny: ## Licences and advisories of the dependencies, if cargo-deny is installed
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --locked check; \
	else echo "SKIPPED deny: cargo-deny is not installed (cargo install --locked cargo-deny)"; fi

ci: lint deny ## What CI runs
	scripts/test --all

clean: ## Removes everything that was built
	$(CARGO) clean

# The simulation reads them; unset they do not reach it.
ifdef SEED
export SEED
endif
ifdef SEEDS
export SEEDS
endif
