# Everything that this project does with itself. `make` alone lists it.

GO        ?= go
IMAGE     ?= spoolraft:latest
FUZZTIME  ?= 10s
BENCHTIME ?= 1s
FAULTS    ?= kill-leader pause partition hung-fsync power-all wipe clock
FAULTTIME ?= 20s
PARALLEL  ?= 2
STATIC     = CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w'
# The analyzers have a module of their own, so that their dependencies stay out
# of ours.
TOOL       = $(GO) tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.PHONY: help build test test-short test-compose faults faults-all planted lint fmt fuzz bench cover image clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Needs Go; with the race detector (test) a C compiler, and for image and test-compose Docker with Compose."

build: ## Build bin/spoolraft
	$(STATIC) -o bin/spoolraft ./cmd/spoolraft

test: ## Run every test, with the race detector, real processes and containers
	$(GO) test -race -timeout 10m ./...
	$(GO) test ./httpapi # once more without the detector: every answer is held against the OpenAPI document
	$(MAKE) --no-print-directory test-compose

test-short: ## Run the tests that take no processes and no containers
	$(GO) test -short ./...

test-compose: ## Run three containers through kills, pauses and cuts; needs Docker with Compose
	SPOOLRAFT_TEST_COMPOSE=1 $(GO) test -count=1 -v -timeout 10m ./test/compose

faults: build ## Run the fault harness on real processes: each of FAULTS for FAULTTIME (20s); needs /dev/fuse and root
	$(GO) run ./jepsen matrix --binary bin/spoolraft --workloads mixed --faults "$(FAULTS)" --out out/faults -- --time $(FAULTTIME) --every 4s

faults-all: build ## Run every workload with every fault for a minute each: 3.5 hours, divided by PARALLEL (2)
	$(GO) run ./jepsen matrix --binary bin/spoolraft --parallel $(PARALLEL) --out out/faults-all -- --time 60s --rate 50

planted: ## Plant bugs in the server, one at a time, and demand that the fault harness finds each; needs /dev/fuse and root
	$(GO) run ./jepsen planted --out out/planted

lint: ## Check formatting, vet, staticcheck and the architecture
	@files=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$files" ] || { echo "not formatted, run make fmt:"; echo "$$files"; exit 1; }
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) test ./test/arch

fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')

fuzz: ## Run each fuzz target for FUZZTIME (10s)
	@set -e; for dir in $$(git grep -lE '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do \
	  for target in $$(cat $$dir/*_test.go | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do \
	    echo "$$dir $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) ./$$dir; \
	  done; \
	done

bench: ## Run the benchmarks, BENCHTIME (1s) each
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

cover: ## Write out/cover.html: which lines the tests run
	@mkdir -p out
	$(GO) test -short -coverprofile out/cover.out -coverpkg ./... ./...
	$(GO) tool cover -html out/cover.out -o out/cover.html
	@$(GO) tool cover -func out/cover.out | tail -n 1

image: ## Build the image (IMAGE, spoolraft:latest) from a binary built here
	@rm -rf out/image && mkdir -p out/image/data
	$(STATIC) -o out/image/spoolraft ./cmd/spoolraft
	docker build --target host --tag $(IMAGE) .

clean: ## Remove what was built here
	rm -rf bin out dist
