# Every target works from a fresh clone with Go, GNU make, bash and a C compiler (the race detector needs one); test
# needs redis-server, nginx, haproxy, prometheus, chromium and spin, too, and tests hops in other languages where node, npm and python3 are there.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# `go test ./...` silently skips nested modules, so every target below walks all go.mod files of the tree. The
# expected count makes a module that was lost, or added without thought, fail the build: root,
# adapters/budgetconnect, adapters/budgetconnect2, adapters/budgetgrpc, adapters/budgetredis, benchmarks,
# cmd/chainbudget, dashboards, examples, internal/tools.
MODULES          := $(sort $(patsubst ./%,%,$(patsubst %/,%,$(dir $(shell find . -name .git -prune -o -name go.mod -print)))))
MODULES_EXPECTED := 10

# -count=1: some tests read files that go's test cache does not know of.
TESTFLAGS ?= -count=1
FUZZTIME  ?= 30s
BENCH     ?=
ROWS      ?=
BENCHFLAGS ?= -benchmem -timeout=30m
DEMOFLAGS ?=
WATCHFLAGS ?=
SOAKTIME  ?= 5m
MUTANTS   ?=
# What make nightly runs, each with the minutes after which it is stopped.
NIGHTLY   ?= fuzz:60 mutants:45 model:60 tables:30 trees:60 soak:15
SIZE      ?= full
UPDATE    ?=

STATICCHECK := $(CURDIR)/.bin/staticcheck
CADDY       := $(CURDIR)/.bin/caddy

# npm writes this file when it has installed all packages of the lock. Without npm nothing is installed, and make test says
# what it therefore did not test.
NODE_PACKAGES := examples/polyglot/node/node_modules/.package-lock.json
NPM           := $(shell command -v npm)

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: ## Run the retry storm with and without the SDK on loopback servers, under a minute (DEMOFLAGS="-depth 5")
	@cd examples
	go run ./storm $(DEMOFLAGS)

.PHONY: watch
watch: ## Run the retry storm over and over before the eyes of a real Prometheus, until Ctrl-C (WATCHFLAGS="-duration 30s")
	@cd examples
	go build -o ../.bin/watch ./storm/watch # go run would report an interrupt as an error
	exec ../.bin/watch $(WATCHFLAGS)

.PHONY: test
test: modules $(CADDY) $(if $(NPM),$(NODE_PACKAGES)) ## Test every module with the race detector, then the allocation guards without it
	@if ! command -v redis-server >/dev/null; then
		echo 'redis-server is missing: adapters/budgetredis is tested against a real one. Install it: apt-get install redis-server, or brew install redis' >&2
		exit 1
	fi
	if ! command -v chromium >/dev/null; then
		echo 'chromium is missing: examples/live opens the live page in it. Install it: apt-get install chromium, or brew install chromium' >&2
		exit 1
	fi
	if ! command -v spin >/dev/null; then
		echo 'spin is missing: internal/model checks the protocol of the purse with it. Install it: apt-get install spin, or brew install spin' >&2
		exit 1
	fi
	# Debian has both in a folder that is not on everybody's PATH.
	for proxy in nginx haproxy; do
		if ! PATH="$$PATH:/usr/sbin" command -v "$$proxy" >/dev/null; then
			echo "$$proxy is missing: examples/proxies sends requests through a real one. Install it: apt-get install $$proxy, or brew install $$proxy" >&2
			exit 1
		fi
	done
	for program in prometheus promtool; do
		if ! command -v "$$program" >/dev/null; then
			echo "$$program is missing: the rules and alerts in dashboards are tested with a real Prometheus. Install it: apt-get install prometheus, or brew install prometheus" >&2
			exit 1
		fi
	done
	failed=() guarded=0
	log=$$(mktemp)
	trap 'rm -f "$$log"' EXIT
	for module in $(MODULES); do
		printf '== %s (race)\n' "$$module"
		(cd "$$module" && go test -race $(TESTFLAGS) ./...) 2>&1 | tee "$$log" || failed+=("$$module (race)")
		if ! grep '^ok' "$$log" | grep -qv 'no tests to run'; then
			failed+=("$$module (no package of it passed a test)")
		fi
	done
	# The race detector changes what allocates. Tests that count allocations are named ..._NoRace or ...Allocs.
	# The published tables are among them, but for these, which have a report of their own that none may be missing from.
	for module in $(MODULES); do
		printf '== %s (no race: _NoRace, Allocs)\n' "$$module"
		(cd "$$module" && go list ./... | grep -v '/internal/tables$$' | xargs go test -vet=off $(TESTFLAGS) -run '_NoRace$$|Allocs') 2>&1 | tee "$$log" || failed+=("$$module (no race)")
		if grep '^ok' "$$log" | grep -qv 'no tests to run'; then guarded=$$((guarded + 1)); fi
	done
	printf '== the published tables\n'
	$(MAKE) tables SIZE=short UPDATE= || failed+=("the published tables")
	if ((guarded == 0)); then failed+=("no test named _NoRace or Allocs ran in any module"); fi
	if (($${#failed[@]})); then
		printf 'FAILED: %s\n' "$${failed[@]}" >&2
		exit 1
	fi
	echo "all $(words $(MODULES)) modules passed: $(MODULES)"
	for language in node python3; do
		if ! command -v "$$language" >/dev/null || [[ $$language == node && ! -e $(NODE_PACKAGES) ]]; then
			printf '\n*** NOT TESTED: hops in other languages (examples/polyglot), because %s or its packages are missing ***\n' "$$language" >&2
		fi
	done

.PHONY: modules
modules: # Fails when the number of go.mod files is not the expected one
	@if (($(words $(MODULES)) != $(MODULES_EXPECTED))); then
		echo "found $(words $(MODULES)) modules ($(MODULES)), want $(MODULES_EXPECTED): restore the lost go.mod, or change MODULES_EXPECTED in the Makefile" >&2
		exit 1
	fi

.PHONY: lint
lint: $(STATICCHECK) ## Run gofmt, go mod tidy -diff, go vet and staticcheck over every module
	@failed=()
	unformatted=$$(find . -name .git -prune -o -name '*.go' -exec gofmt -l {} +) || failed+=("gofmt could not read a file")
	if [[ -n $$unformatted ]]; then
		printf 'not formatted (run gofmt -w): %s\n' $$unformatted
		failed+=(gofmt)
	fi
	for module in $(MODULES); do
		printf '== %s\n' "$$module"
		(cd "$$module" && go mod tidy -diff) || failed+=("$$module (go mod tidy)")
		(cd "$$module" && go vet ./...) || failed+=("$$module (vet)")
		(cd "$$module" && "$(STATICCHECK)" ./...) || failed+=("$$module (staticcheck)")
	done
	if (($${#failed[@]})); then
		printf 'FAILED: %s\n' "$${failed[@]}" >&2
		exit 1
	fi
	echo "lint: $(words $(MODULES)) modules clean"

.PHONY: tools
tools: $(STATICCHECK) $(CADDY) ## Build the pinned programs that lint and test need

# The versions are pinned by the tool directives of internal/tools/go.mod, a module of its own so that no user of the
# SDK downloads them.
$(STATICCHECK): internal/tools/go.mod internal/tools/go.sum
	@cd internal/tools
	go build -o "$@" honnef.co/go/tools/cmd/staticcheck

$(CADDY): internal/tools/go.mod internal/tools/go.sum
	@cd internal/tools
	# Without the stores of its certificate authority, which nothing here asks for.
	CGO_ENABLED=0 go build -tags nobadger,nomysql,nopgx -o "$@" github.com/caddyserver/caddy/v2/cmd/caddy

.PHONY: node
node: $(NODE_PACKAGES) ## Install the Node packages that examples/polyglot is tested with

$(NODE_PACKAGES): examples/polyglot/node/package.json examples/polyglot/node/package-lock.json
	@cd $(dir $<)
	npm ci --ignore-scripts --no-audit --no-fund
	touch $(notdir $(patsubst %/,%,$(dir $@)))/$(notdir $@)

.PHONY: fuzz
fuzz: ## Fuzz every target of every module for FUZZTIME each (30s)
	@targets=$$(grep -rnoE --include='*_test.go' --exclude-dir=.git '^func Fuzz[A-Za-z0-9_]*' . | sed -E 's|^(.*)/[^/]+:[0-9]+:func (Fuzz.*)$$|\1 \2|' | sort)
	total=$$(grep -c . <<<"$$targets" || true)
	if ((total == 0)); then echo 'no fuzz target found' >&2; exit 1; fi
	n=0 failed=()
	log=$$(mktemp)
	trap 'rm -f "$$log"' EXIT
	# By default an input that reached something new is made smaller for up to a minute: of a loader with a long seed nothing
	# else happened in FUZZTIME.
	while read -r dir name; do
		n=$$((n + 1))
		printf '== %d/%d %s %s (%s)\n' "$$n" "$$total" "$$dir" "$$name" "$(FUZZTIME)"
		(cd "$$dir" && go test -run '^$$' -fuzz "^$$name\$$" -fuzztime "$(FUZZTIME)" -fuzzminimizetime 20x .) </dev/null 2>&1 | tee "$$log" || failed+=("$$dir $$name")
		# go test succeeds when the target is not in the build, behind a build tag for instance.
		if ! grep -q '^fuzz: elapsed' "$$log"; then failed+=("$$dir $$name (was not fuzzed)"); fi
	done <<<"$$targets"
	if (($${#failed[@]})); then
		printf 'FAILED: %s\n' "$${failed[@]}" >&2
		exit 1
	fi
	echo "fuzz: $$total targets, no failure"

.PHONY: bench
bench: ## Measure the cost against other libraries, as ratios of one run (ROWS=pattern: some; BENCH=pattern: raw figures instead)
	@cd benchmarks
	if [[ -n '$(BENCH)' ]]; then
		go test -run '^$$' -bench '$(BENCH)' $(BENCHFLAGS) ./...
	else
		go run ./compare -run '$(value ROWS)'
	fi

.PHONY: soak
soak: ## Send requests with faults of every kind down a chain of HTTP, gRPC and connect hops for SOAKTIME (5m)
	@cd examples
	go test $(TESTFLAGS) -timeout 0 -run '^TestSoak$$' -v ./mixed -args -soak=$(SOAKTIME) -workers=48

.PHONY: tables
tables: ## Count every published table and print them in one report (SIZE=short: a fifth of the samples, UPDATE=1: record it)
	@case '$(SIZE)' in
	full) flags=(-full) ;;
	short) flags=() ;;
	*) echo 'SIZE=$(SIZE) is no size of the tables: write SIZE=full or SIZE=short' >&2; exit 1 ;;
	esac
	if [[ -n '$(UPDATE)' ]]; then flags+=(-update); fi
	go test -vet=off $(TESTFLAGS) -timeout 30m -v ./internal/tables -args -report "$${flags[@]}" | grep --line-buffered -vE '^ *=== |^ +--- PASS'

.PHONY: trees
trees: ## Hold the invariants on 100,000 random trees and 2,000 over loopback (make test: a quarter of them)
	@go test -vet=off $(TESTFLAGS) -timeout 60m -v -run '^TestI1_' ./internal/trees -args -full | grep --line-buffered -v '^ *=== '

.PHONY: model
model: ## Search every state of the purse's protocol in every configuration of internal/model, and find each seeded bug
	@go test -vet=off $(TESTFLAGS) -timeout 60m -v ./internal/model -args -full | grep --line-buffered -v '^ *=== '

.PHONY: mutants
mutants: ## Break each guarded rule in a copy and demand that its test goes red (MUTANTS="wire gates": those of two folders)
	@go run ./internal/mutants/run $(MUTANTS)

.PHONY: rules
rules: ## Write the table of rules, mutants and tests from the patches
	@go test -count=1 -run '^TestRules_are_recorded$$' ./internal/mutants/run -update

.PHONY: nightly
nightly: FUZZTIME = 1m
nightly: ## Run fuzz (1m a target), mutants, model, tables, trees and soak, each within its bound, about an hour and a half (NIGHTLY="fuzz:10 soak:5")
	@set -m # each step is a process group of its own, so that all of it can be stopped
	mkdir -p .bin/nightly
	summary=() failed=0 job='' bound=''
	trap '[[ -z $$job ]] || kill -TERM -- -"$$job" -"$$bound" 2>/dev/null; exit 1' INT TERM
	for step in $(NIGHTLY); do
		name=$${step%%:*} minutes=$${step##*:} began=$$SECONDS verdict=passed
		printf '== %s, at most %d minutes: .bin/nightly/%s.log\n' "$$name" "$$minutes" "$$name"
		$(MAKE) "$$name" FUZZTIME="$(FUZZTIME)" >".bin/nightly/$$name.log" 2>&1 &
		job=$$!
		{ sleep $$((minutes * 60)); kill -TERM -- -"$$job"; } >/dev/null 2>&1 &
		bound=$$!
		if ! wait "$$job"; then
			failed=1 verdict=FAILED
			if ((SECONDS - began >= minutes * 60)); then verdict='STOPPED by its bound'; fi
			tail -n 40 ".bin/nightly/$$name.log"
		fi
		kill -TERM -- -"$$bound" 2>/dev/null || true
		wait "$$bound" 2>/dev/null || true
		summary+=("$$(printf '%-8s %4d s  %s' "$$name" $$((SECONDS - began)) "$$verdict")")
	done
	printf '\nnightly:\n'
	printf '  %s\n' "$${summary[@]}"
	exit $$failed

.PHONY: api
api: ## Write the exported API of every public package to api/*.txt
	@go test -count=1 -run '^TestAPI$$/^is_recorded$$' ./internal/architecture -update

.PHONY: schema
schema: ## Write the JSON Schema of catalogs and the page of the built-in profiles from the code
	@go test -count=1 -run '^Test(Schema|Document_of_the_builtin_profiles)_is_recorded$$' ./profiles -update

.PHONY: dashboards
dashboards: ## Write the Grafana dashboard from the code in dashboards
	@cd dashboards
	go run . grafana/chainbudget.json

.PHONY: instruments
instruments: ## Write the table of docs/metrics.md from the code and the alerts
	@go test -count=1 -run '^TestDocument_of_the_instruments_is_recorded$$' ./internal/instruments -update

.PHONY: tidy
tidy: ## Tidy the go.mod of every module and format every file
	@for module in $(MODULES); do (cd "$$module" && go mod tidy); done
	find . -name .git -prune -o -name '*.go' -exec gofmt -w {} +
