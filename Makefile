# Everything that is done with this tree, for people and for CI. `make help` lists it.

.DEFAULT_GOAL := help
.PHONY: help run build test test-all test-fast test-clients test-deploy test-kubernetes test-release test-containers conformance contention client-speed interop mixed-versions versions sim model faults soak abuse fuzz mutants bench cost sizing proto lint fmt doc rustdoc deny dist ci clean

CARGO ?= cargo

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do printf '  make %-15s %s\n' "$$name" "$$text"; done

run: ## A coordinator on 127.0.0.1:7625, its console on http://127.0.0.1:7626, with the embedded store (ARGS="--store redis://..." for another)
	$(CARGO) run --release --locked -- serve --admin-listen 127.0.0.1:7626 $(ARGS)

build: ## The binary, for debugging
	$(CARGO) build --locked

test: ## Something of every tier, in at most ten minutes; installs redis-server if it is missing
	scripts/test

test-all: ## All tests; names the toolchains that are missing
	scripts/test --all

test-fast: ## What takes seconds: unit tests, behaviour in one process, and the checks of the tree
	$(CARGO) test --locked --no-fail-fast --workspace --lib --test generated --test it --test tidy

test-clients: ## Only the tests with clients in other languages, the examples, and buf on the proto files
	scripts/test --clients

conformance: ## Every client against the same scenarios, and the wrong clients: LANGUAGES="go python" for some
	LANGUAGES="$(LANGUAGES)" scripts/conformance

contention: ## All clients and Redisson contend for one lock for CONTENTION_SECONDS (600) while coordinators are killed and frozen
	CONTENTION_SECONDS=$(or $(CONTENTION_SECONDS),600) scripts/conformance contention

client-speed: ## Pairs per second of each client, beside a bare stream in its language, and the memory of a session; on a machine that is otherwise idle
	CARGO_PROFILE=bench scripts/conformance speed --exact --ignored --nocapture

test-deploy: ## The Helm chart and the manifests against Kubernetes' schemas, the alerts by promtool; needs python3 and helm or go
	scripts/test --deploy

test-kubernetes: ## The Helm chart and the manifests on a real API server, which it builds first (ten minutes, once); needs python3, go and openssl, installs etcd
	tests/deploy/kubernetes.sh --build

test-release: ## Archives, install script, deb and rpm: installed, and a lock taken with each; needs root. RELEASE=dist for what make dist built
	scripts/test --release

test-containers: ## The image and every profile of docker-compose.yml in a container engine, which it starts if none runs; BINARY=path of a static one (of make dist) saves the build
	tests/containers/smoke.sh $(BINARY)

interop: ## The tests with the real Redisson; needs Java and Maven, and names what is missing
	scripts/test --interop

mixed-versions: ## The tests that put an older coordinator beside the current one, which is built from the history
	scripts/mixed-versions

versions: ## The promises on Redis 6.2, the system's Redis, Redis 8 and Valkey 9: a matrix. STORES="redis-8 valkey-9", SUITES="scripts faults" for some
	STORES="$(STORES)" SUITES="$(SUITES)" scripts/versions

sim: ## The simulation: SEED=n replays one seed, SEEDS=n runs that many
	$(CARGO) test --locked --package lockkeeper-simulation -- --nocapture

model: ## Explores the model of the protocol within the bounds of docs/proof.md, and prints its states
	$(CARGO) run --locked --package lockkeeper-model

faults: ## What breaks while locks are taken, for FAULT_SECONDS (60) each, and the histories judged: the tables in docs/robustness/rows.md. ROW=name for one
	FAULT_SECONDS=$(or $(FAULT_SECONDS),60) scripts/faults $(ROW)

soak: ## All faults at random, 15 minutes on each kind of store (SOAK_SECONDS, 900); what a coordinator uses must not grow
	FAULT_SECONDS=$(or $(SOAK_SECONDS),900) scripts/faults soak_

abuse: ## What attackers can do to their neighbours, on the release: the table in docs/robustness/abuse.md. ROW=name for one, UPDATE_DOCS=1 writes it
	scripts/abuse $(ROW)

fuzz: ## What comes from outside, made up by a fuzzer: SECONDS_EACH (60) for each target, TARGET=name for one; needs a nightly compiler
	SECONDS_EACH=$(or $(SECONDS_EACH),60) TARGET=$(TARGET) scripts/fuzz

mutants: ## Changes one thing at a time in PART (access, machine, quorum or coordinator): the tests have to notice; needs cargo-mutants. SHARD=1/8 for some
	SHARD="$(SHARD)" scripts/mutants $(or $(PART),access)

bench: ## Speed against anchors and peers: docs/performance.md. BENCH_ROUNDS=n (5), BENCH_SECONDS=n (5) for each measurement
	scripts/bench

cost: ## Instructions of the coordinator and of Redis for each operation, counted by callgrind; needs valgrind and redis-server
	$(CARGO) build --locked --profile bench --workspace --bins
	$${CARGO_TARGET_DIR:-target}/release/lockkeeper-performance cost

sizing: ## What one coordinator carries: a million grants, 300,000 waiters, 100,000 sessions that lose their coordinator; takes 4 GB
	$(CARGO) build --locked --release --workspace --bins
	$${CARGO_TARGET_DIR:-target}/release/lockkeeper-performance sizing

proto: ## Generates the Rust of proto/ anew, into src/api/generated, and that of the facades
	UPDATE_PROTO=1 $(CARGO) test --locked --package lockkeeper-api --package lockkeeper-facades --test generated

lint: ## Format and lints; every warning is an error
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --workspace --test interop -- -D warnings
	$(CARGO) clippy --locked --package lockkeeper-client --all-targets --no-default-features -- -D warnings

fmt: ## Formats the Rust
	$(CARGO) fmt --all

doc: ## The pages of docs/ as a book with search, in target/book; builds mdBook first, once
	scripts/doc

rustdoc: ## The documentation of the crates, in target/doc
	$(CARGO) doc --locked --workspace --no-deps --document-private-items

deny: ## Licences, sources and advisories of the dependencies, if cargo-deny is installed
	@scripts/deny

dist: ## The release, in dist/: archives, deb, rpm, what is in them, and SHA-256; the same bytes for the same commit. DIST_TARGETS=x86_64-linux-gnu for some
	scripts/dist

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
ifdef RELEASE
export RELEASE
endif
