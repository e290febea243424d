# `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# One setting for programs and tests, so that they share Go's build cache: a clean checkout compiles everything once.
export CGO_ENABLED ?= 0
# grpcnotrace: without gRPC's pages for people to read, whose templates call methods by name, the linker may drop
# methods that nothing calls: a third of the code and constants of the kubelet (62 → 41 MB).
export GOFLAGS ?= -trimpath -buildvcs=false -tags=grpcnotrace
# Docker is on this machine also where a container's marks (/.dockerenv) make Testcontainers think otherwise.
export TESTCONTAINERS_HOST_OVERRIDE ?= 127.0.0.1

PACKAGES  ?= ./...
UNIT      = $$(go list $(PACKAGES) | grep --invert-match --extended-regexp '/e2e(/robustness)?$$')
# All but the whole API server's own tests, which take a quarter of an hour so: make race RACE=./components/apiserver
RACE      ?= $$(go list $(PACKAGES) | grep --invert-match --extended-regexp '/(e2e(/robustness)?|components/apiserver)$$')
NODES     ?= 2
NAME      ?= quintet
REPORT    ?= _output/report
LENGTH    ?= 10m
ABORTS    ?= 1000
CLUSTERS  ?= 200
# What the programs say of themselves: the release is that of the modules that the API's types come from.
VERSION    = $(shell sed -n 's,^\tk8s.io/api v0,v1,p' go.mod)
COMMIT     = $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
STATE      = $(shell test -z "$$(git status --porcelain 2>/dev/null)" && echo clean || echo dirty)
DATE       = $(shell git log -1 --format=%cI 2>/dev/null || echo 1970-01-01T00:00:00Z)
OWN        = $(shell git describe --tags --always --dirty --match 'v*' 2>/dev/null || echo devel)
STAMP      = -X quintet.dev/quintet/internal/release.own=$(OWN) $(foreach p,k8s.io/component-base/version k8s.io/client-go/pkg/version,-X $p.gitVersion=$(VERSION) \
	-X $p.gitMajor=$(word 1,$(subst ., ,$(VERSION:v%=%))) -X $p.gitMinor=$(word 2,$(subst ., ,$(VERSION:v%=%))) \
	-X $p.gitCommit=$(COMMIT) -X $p.gitTreeState=$(STATE) -X $p.buildDate=$(DATE))
LINT      := go tool -modfile=.ci/tools/go.mod
# gotest FLAGS,PACKAGES,NAME tests. With RERUN=1, as on build machines, tests that fail (five at most) run once more, and
# those that pass only then are named in _output/flaky/NAME; e2e tells each test as it ends.
RERUNNER  := $(CURDIR)/bin/tools/gotestsum --rerun-fails=1 --rerun-fails-max-failures=5
gotest     = $(if $(findstring -race,$1),CGO_ENABLED=1 )$(if $(RERUN),$(RERUNNER) --format $(if $(filter e2e,$3),testname,standard-quiet) --rerun-fails-report=$(CURDIR)/_output/flaky/$3 --packages="$2" -- $1,go test $1 $2)

##@ Develop

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build all programs into bin/, static
	@mkdir -p bin
	go build -ldflags "-s -w $(STAMP)" -o bin/ ./cmd/...
	go build -C components/dns -ldflags "-s -w" -o $(abspath bin)/ ./cmd/...
	go build -C components/registry -ldflags "-s -w" -o $(abspath bin)/ ./cmd/...

.PHONY: test
test: rerunner ## Run the unit tests (no Docker needed; tests that use it are skipped without)
	$(call gotest,-timeout 30m,$(UNIT),test)
	cd components/dns && $(call gotest,,./...,test-dns)
	cd components/registry && $(call gotest,,./...,test-registry)

.PHONY: race
race: rerunner ## Run RACE under the race detector: by default all unit tests but the API server's own
	$(call gotest,-race -timeout 30m,$(RACE),race)
	cd components/dns && $(call gotest,-race,./...,race-dns)
	cd components/registry && $(call gotest,-race,./...,race-registry)

.PHONY: rerunner
rerunner: # what RERUN=1 tests with
	$(if $(RERUN),mkdir -p _output/flaky)
	$(if $(RERUN),CGO_ENABLED=0 go build -modfile=.ci/tools/go.mod -o bin/tools/ gotest.tools/gotestsum)

.PHONY: lint
lint: ## Vet and lint
	test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go vet -C components/dns ./...
	go vet -C components/registry ./...
	go vet -C examples ./...
	$(LINT) staticcheck ./...

.PHONY: generate
generate: ## Make generated code again
	go generate ./components/apiserver/openapi ./... # what is made of the schemas, after them

##@ Images and clusters

.PHONY: images
images: ## Build the image of every component and of the node, skipping what is fresh
	@mkdir -p bin
	go build -ldflags "-s -w $(STAMP)" -o bin/ ./cmd/quintet
	bin/quintet images build

.PHONY: up
up: images ## Start a cluster: make up NAME=a NODES=3
	bin/quintet up --name $(NAME) --nodes $(NODES)

.PHONY: down
down: ## Remove all clusters, also those that a crash left behind
	@[ -x bin/quintet ] || $(MAKE) build
	bin/quintet down --all

##@ Prove

.PHONY: e2e
e2e: images rerunner ## Build images, test clusters of containers, write the conformance report to _output/report
	QUINTET_REPORT_DIR=$(abspath $(REPORT)) $(call gotest,-p 1 -count=1 -timeout 60m,./e2e ./e2e/robustness,e2e)

.PHONY: examples
examples: ## Run the examples, a module of its own; the images that they need are built by the tests
	go test -C examples -p 1 -count=1 -timeout 30m ./...

.PHONY: conformance
conformance: images ## Start a cluster, run the conformance suite on it, write the report to _output/report
	bin/quintet up --name conformance --nodes 2 --with metrics-server --with csi-driver --with device-driver --args node=--pod-max-pids=300
	bin/quintet conformance --name conformance --profile full --report $(REPORT); code=$$?; bin/quintet down --name conformance; exit $$code

.PHONY: robustness
robustness: ## Kill, pause and cut off etcd and API servers for LENGTH, and check all histories (30 s each in e2e)
	go test -count=1 -timeout 0 -v -run 'TestHistory|TestInformers' ./e2e/robustness -args -length $(LENGTH)

.PHONY: endurance
endurance: ## Kill kubelets, engines and nodes for LENGTH, and check what is left on the nodes (60 s in e2e)
	go test -count=1 -timeout 0 -v -run TestNodesEndure ./e2e -args -endurance-length $(LENGTH)

.PHONY: aborts
aborts: images ## Kill ABORTS starts at random moments, and check that nothing is left (20 in e2e)
	go test -count=1 -timeout 0 -v -run 'TestAborted' ./e2e -args -aborts $(ABORTS)

.PHONY: parallel
parallel: export CGO_ENABLED = 1
# the detector keeps several bytes for each of the heap
parallel: export GOGC = 25
parallel: ## Start CLUSTERS clusters at once in one process under the race detector (6 in test)
	go test -race -count=1 -timeout 0 -v -run TestParallelClusters ./cluster -args -parallel-clusters $(CLUSTERS)

.PHONY: bench
bench: build $(if $(filter scale% scheduler% controllers volumes claims,$(ONLY)),,images) ## Measure ratios in one run, of one section: make bench ONLY=scale
	bin/quintet bench $(if $(ONLY),--only '^$(ONLY)$$')

##@ Clean up

.PHONY: clean
clean: ## Remove clusters, images and everything built
	@[ ! -x bin/quintet ] || bin/quintet down --all
	docker image ls --quiet --filter label=io.quintet.image=true | sort --unique | xargs --no-run-if-empty docker image rm --force >/dev/null
	rm -rf bin _output
