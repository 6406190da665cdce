# make demo    the main job on a throwaway PostgreSQL
# make test    everything: unit, race, fuzz seeds, integration
# make help    the rest

GO      ?= go
LINT    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
TESTSUM := gotest.tools/gotestsum@v1.13.0

.PHONY: help build demo test proof mix soak bench bench-go figures figures-go charts fuzz lint images clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/pgid
	$(GO) build -o bin/pgid ./cmd/pgid

demo: build ## run the main job on a throwaway PostgreSQL, or on PGID_DATABASE_URL
	@scripts/local-tools.sh demo
	@exec bin/pgid demo

# The server is, in this order: PGID_TEST_DATABASE_URL, Docker, a local PostgreSQL.
# PGID_TEST_BACKEND=url|container|local forces one; PGID_TEST_VERSION picks a version.
# The search over interleavings has no goroutines, and takes several times as long under the race detector.
test: ## run all tests, with the race detector
	@scripts/local-tools.sh test
	@$(GO) test -count=1 -v -run '^TestBackend$$' ./internal/pgtest | grep '^pgtest:'
	$(GO) run $(TESTSUM) --format pkgname --format-hide-empty-pkg -- -race -count=1 -timeout 15m $$($(GO) list ./... | grep -v /internal/interleave)
	$(GO) run $(TESTSUM) --format pkgname --format-hide-empty-pkg -- -count=1 -timeout 15m ./internal/interleave
	cd bench && $(GO) test -count=1 ./...

proof: ## run what shows that the SQL keeps its promises, and agrees with Go
	$(GO) run $(TESTSUM) --format pkgname --format-hide-empty-pkg -- -count=1 -timeout 15m . ./migrations ./internal/faults ./internal/doctor

mix: ## 5 million IDs from every way to draw, in several processes, on shared shards
	PGID_TEST_MIX=5000000 $(GO) test -count=1 -v -run '^TestMix$$' -timeout 15m .

soak: ## ten minutes under all faults mixed, ten million IDs and more; the table goes to docs/reliability.md
	PGID_TEST_SOAK=10m PGID_SOAK_REPORT=$(CURDIR)/docs/reliability.md $(GO) test -count=1 -v -run '^TestSoak$$' -timeout 30m ./internal/faults

# On the server that tests use; PGID_TEST_VERSION picks a version there.
bench: ## pgid beside nextval, Instagram's function and UUIDs, and what it has to meet
	$(GO) test -run '^$$' -bench '^BenchmarkTargets$$' -benchtime 1x -timeout 60m .

bench-go: ## the Go side beside other libraries that make IDs
	cd bench && $(GO) test -run '^$$' -bench .

figures: ## measure for docs/performance all that the charts show
	mkdir -p docs/performance
	PGID_BENCH_JSON=docs/performance $(GO) test -run '^$$' -bench '^Benchmark(Targets|Insert|Growth)$$' -benchtime 1x -timeout 120m .

figures-go: ## the same for the Go side: three rounds of bench-go
	rm -f docs/performance/go.txt
	cd bench && for round in 1 2 3; do $(GO) test -run '^$$' -bench . >../docs/performance/go.new || exit; \
		sed '/^cpu:/d' ../docs/performance/go.new >>../docs/performance/go.txt; done; rm ../docs/performance/go.new

charts: ## draw docs/performance/*.svg from the figures there, and fill in the tables
	cd bench && for file in ../docs/performance/*.json; do $(GO) run ./chart -in $$file -out ../docs/performance || exit; done
	cd bench && $(GO) run ./tables -in ../docs/performance ../docs/performance.md ../README.md

fuzz: ## fuzz the parsers, 30 s each
	$(GO) test -run '^$$' -fuzz '^FuzzParse$$' -fuzztime 30s ./pgid
	$(GO) test -run '^$$' -fuzz '^FuzzUnmarshalJSON$$' -fuzztime 30s ./pgid

lint: ## vet, format and lint
	$(GO) mod tidy -diff
	$(GO) run $(LINT) run
	cd bench && $(GO) mod tidy -diff && $(GO) run $(LINT) run

images: ## build the container images of PostgreSQL 15, 17, 18 and 19
	scripts/postgres-image.sh 15 17 18 19

clean: ## remove what was built
	rm -rf bin
