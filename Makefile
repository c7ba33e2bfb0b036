# make demo   demonstrates Sluice on this machine
# make test   runs all tests except those that need Pods (make e2e) and slow ones (make soak)
# Both build their binaries from Go modules into bin/. The first build takes several minutes.

BIN := $(CURDIR)/bin
MODULES := api runtime gate-controller pipeline-controller flux-cli-plugin release tests cmd

VERBS := open close approve pass gate pipeline sluice

# The binaries of the local cluster. If KUBEBUILDER_ASSETS is set, those of the control plane are taken from there.
export SLUICE_BIN := $(BIN)

# The flags of hack/build.sh and release/ too, so shared dependencies are compiled once.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)

# The default timeout of Eventually. Gomega's own, one second, is too short on a busy machine.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT := 1m

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use

.PHONY: demo
demo: $(if $(PREBUILT),prebuilt,binaries) build ## Demonstrate a promotion from dev to prod, and a gate. ARGS=--keep leaves the cluster running, PREBUILT=1 downloads binaries.
	@$(if $(PREBUILT),SLUICE_BIN=$(BIN)/prebuilt) $(BIN)/sluice-local $(ARGS)

# Half of tests/e2e: most of the files about gates. They and the others are tested at the same time, each in a cluster
# of its own, because both wait more than they compute.
GATES := /(access|bypass|charts|crash|forgery|gates|health|image_automation|interruptions|lifecycle|lost_field|passes|refused|replaced_gate|shards|sources|takeover|turned_by|undone|urgent_fix|windows)_test

.PHONY: test
test: binaries build ## Run all tests except those of make e2e and make soak.
	@hack/build.sh flux-cli
	@go test -count=1 -timeout 45m $$(go list $(MODULES:%=./%/...) | grep -v /tests/e2e$$) $(ARGS); failed=$$?; \
	go test -count=1 -timeout 45m ./tests/e2e $(ARGS) -ginkgo.focus-file '$(GATES)' > $(BIN)/test-gates.log 2>&1 & gates=$$!; \
	go test -count=1 -timeout 45m ./tests/e2e $(ARGS) -ginkgo.skip-file '$(GATES)' || failed=1; \
	wait $$gates || failed=1; cat $(BIN)/test-gates.log; \
	exit $$failed

# The limit is a count, which takes about a minute: with a time limit, fuzzing sometimes fails up to Go 1.26
# (golang/go#75804).
.PHONY: fuzz
fuzz: ## Fuzz the editing of marked files and the windows of gates, for about two minutes.
	go test -run '^$$' -fuzz '^FuzzSet$$' -fuzztime 500000x -fuzzminimizetime 1x ./api/marker
	go test -run '^$$' -fuzz '^FuzzParse$$' -fuzztime 200000x -fuzzminimizetime 1x ./api/calendar
	go test -run '^$$' -fuzz '^FuzzTransitions$$' -fuzztime 1000x -fuzzminimizetime 1x ./api/calendar

.PHONY: e2e
e2e: stories ## Run the tests that need Pods or networks. Requires root on Linux. ARGS is passed to go test.
	@test "$$(uname) $$(id -u)" = "Linux 0" || { echo "make e2e runs containers, which takes Linux and root: sudo make e2e" >&2; exit 1; }
	@hack/build.sh controlplane flux node
	go build -ldflags "-s -w" -o $(BIN)/node/ ./tests/localnode/...
	go test -count=1 -timeout 30m -p 1 -tags e2e_node ./tests/localnode ./tests/stories ./tests/leafnet $(ARGS)

.PHONY: e2e-cluster
e2e-cluster: stories ## Run the stories on the test cluster of E2E_KUBECONFIG, which must have Flux. E2E_LOAD is the command that loads images into it.
	@test -n "$$E2E_KUBECONFIG" || { echo "make e2e-cluster: set E2E_KUBECONFIG to the path of a kubeconfig" >&2; exit 1; }
	go test -count=1 -timeout 30m -tags e2e_node ./tests/stories $(ARGS)

# The node images of kind 0.33 for the Kubernetes versions that Flux 2.9 supports.
KIND_NODE_1.36 := kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed
KIND_NODE_1.35 := kindest/node:v1.35.8@sha256:07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0
KIND_NODE_1.34 := kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d
KUBERNETES ?= 1.36

.PHONY: e2e-kind
e2e-kind: ## Run the stories on kind, with KUBERNETES=1.34, 1.35 or 1.36. Requires kind and the Flux CLI.
	kind create cluster --name sluice-e2e --image $(KIND_NODE_$(KUBERNETES)) --kubeconfig $(BIN)/kind.kubeconfig
	flux install --kubeconfig $(BIN)/kind.kubeconfig
	E2E_KUBECONFIG=$(BIN)/kind.kubeconfig E2E_LOAD="kind load image-archive --name sluice-e2e" $(MAKE) e2e-cluster
	kind delete cluster --name sluice-e2e

.PHONY: e2e-versions
e2e-versions: stories ## Run the stories on the oldest supported Kubernetes. Requires root on Linux.
	@hack/build.sh controlplane flux node controlplane-1.34
	go build -ldflags "-s -w" -o $(BIN)/node/ ./tests/localnode/...
	KUBEBUILDER_ASSETS=$(BIN)/controlplane-1.34 go test -count=1 -timeout 30m -tags e2e_node ./tests/stories $(ARGS)

# Two releases from the same sources: the stories upgrade from one to the other.
.PHONY: stories
stories: build
	@hack/build.sh gitea flux-cli
	@mkdir -p $(BIN)/node
	go build -ldflags "-s -w" -o $(BIN)/node/ ./tests/stories/registry
	@for version in v0.1.0 v0.2.0; do \
		go run ./release images -version $$version -revision $(REVISION) -dir $(BIN)/stories/$$version -platforms linux/$$(go env GOARCH) || exit 1; done

# Every zone of the tz database, around every change of its clocks from 2024 to 2030.
.PHONY: clocks
clocks: ## Compare windows with a clock that is read minute by minute, which takes about ten minutes.
	go test -count=1 -timeout 0 -tags soak -run '^TestEveryTransition$$' ./api/calendar

# The slow specs, which make test omits, and then a test of one hour. DURATION changes its length, and SEED repeats its
# random choices. It has no timeout: it ends when everything has settled.
.PHONY: soak
soak: binaries build ## Run the slow tests, and an hour with hostile hosts and random kills, on Linux. DURATION=10m shortens it.
	@hack/build.sh flux-cli
	go test -count=1 -timeout 45m ./tests/e2e -ginkgo.label-filter=slow
	go test -count=1 -timeout 0 -v -tags soak ./tests/soak $(ARGS)

# The controllers run as processes beside a real control plane. Nothing else should run meanwhile.
.PHONY: bench
bench: binaries build ## Measure what has a budget, for docs/benchmarks.md. ARGS="-pipelines 100 -gated 100" limits the sizes, BEFORE=old.json compares.
	go test -count=1 -timeout 0 -run '^$$' -bench '^BenchmarkBudgets$$' -benchtime 1x ./tests/scale \
		-report $(BIN)/bench.json $(if $(BEFORE),-before $(abspath $(BEFORE))) $(ARGS)
	@cat $(BIN)/bench.md

.PHONY: binaries
binaries: ## Build the control plane, Flux and Gitea for this machine.
	@hack/build.sh controlplane flux gitea

# Gitea's release needs no files beside it.
.PHONY: prebuilt
prebuilt: build ## Download the binaries of the control plane, Flux and Gitea, to bin/prebuilt.
	@hack/build.sh flux-crds
	@go run ./cmd/prebuilt -dir $(BIN)/prebuilt
	@mkdir -p $(BIN)/prebuilt/gitea-static
	@ln -sfn ../crds ../plugins ../gate-controller ../pipeline-controller $(BIN)/prebuilt/

.PHONY: node
node: ## Build the binaries of a node, and install the system packages that it needs.
	@hack/build.sh node

# The tag is that of release/program.
.PHONY: build
build: ## Build Sluice.
	@mkdir -p $(BIN)/plugins
	go build -o $(BIN)/gate-controller ./gate-controller
	go build -tags=grpcnotrace -o $(BIN)/pipeline-controller ./pipeline-controller
	go build -o $(BIN)/flux-sluice ./flux-cli-plugin
	go build -o $(BIN)/sluice-local ./cmd/sluice-local
	@$(foreach verb,$(VERBS),ln -sf ../flux-sluice $(BIN)/plugins/flux-$(verb);)

##@ Release

# VERSION alone defines a release. No file contains the version.
VERSION ?= v0.0.0-dev
REVISION ?= $(shell git rev-parse HEAD)
release = go run ./release $(1) -version $(VERSION) -revision $(REVISION) -dir $(BIN)/release $(if $(REGISTRY),-registry $(REGISTRY))

.PHONY: images
images: ## Write images and their manifests to bin/release. VERSION, PLATFORMS. REGISTRY=host/path pushes them.
	$(call release,images) $(if $(PLATFORMS),-platforms $(PLATFORMS))
	$(if $(REGISTRY),@$(MAKE) push)

.PHONY: push
push: ## Push the images of make images, and the manifests as an artifact that Flux can install. VERSION, REGISTRY.
	@hack/build.sh flux-cli
	$(call release,push) -flux $(BIN)/flux

.PHONY: plugin
plugin: ## Write the archives of the plugin, and its manifest for Flux's plugin catalog, to bin/release/plugin. VERSION, PLATFORMS.
	$(call release,plugin) $(if $(PLATFORMS),-platforms $(PLATFORMS))

.PHONY: sbom
sbom: $(BIN)/cyclonedx-gomod ## Write SBOMs of the programs of make images and make plugin to bin/release/sbom, in CycloneDX.
	@mkdir -p $(BIN)/release/sbom
	for program in $(BIN)/release/programs/*/*; do \
		$< bin -json -output "$(BIN)/release/sbom/$$(basename "$$program")_$$(basename "$$(dirname "$$program")").cdx.json" "$$program" || exit 1; done

##@ Develop

.PHONY: generate
generate: $(BIN)/controller-gen ## Generate Go code.
	cd api && $(BIN)/controller-gen object:headerFile=../hack/boilerplate.go.txt paths=./...
	cd gate-controller && $(BIN)/controller-gen object:headerFile=../hack/boilerplate.go.txt paths=./internal/source

.PHONY: manifests
manifests: $(BIN)/controller-gen $(BIN)/crd-ref-docs ## Generate the CRDs, also those of Flux that only tests use, the controllers' roles and docs/api.
	cd api && $(BIN)/controller-gen crd paths=./gating/... paths=./pipelines/... output:crd:dir=../config/crd/bases
	cd api && $(BIN)/controller-gen crd paths=./gitops/... output:crd:dir=../config/components/gitops-clusters
	cd tests && $(BIN)/controller-gen crd paths=github.com/fluxcd/image-automation-controller/api/v1 \
		paths=github.com/fluxcd/source-watcher/api/v2/v1beta1 output:crd:dir=crds
	for controller in gate-controller pipeline-controller; do (cd $$controller && \
		$(BIN)/controller-gen rbac:roleName=sluice-$$controller,fileName=$${controller}_role.yaml paths=./... output:rbac:dir=../config/rbac) || exit 1; done
	@mkdir -p docs/api
	for kind in gating pipelines gitops; do $(BIN)/crd-ref-docs --log-level=ERROR --renderer=markdown --config=hack/crd-ref-docs.yaml \
		--source-path=api/$$kind --output-path=docs/api/$$kind.md || exit 1; done

.PHONY: tidy
tidy: ## Tidy all modules. Each gets the versions of the workspace, so that a release is built from what the tests have run.
	go work sync
	for module in $(MODULES); do (cd $$module && GOWORK=off go mod tidy) || exit 1; done

# Compilers that collect less garbage take a tenth less time.
.PHONY: verify
verify: export GOGC := 400
verify: generate manifests tidy ## Check formatting, vet, and that generated files are up to date.
	go vet $(MODULES:%=./%/...)
	go vet -tags e2e_node,soak ./tests/...
	@test -z "$$(gofmt -l $(MODULES))" || { gofmt -l $(MODULES); echo "run gofmt"; exit 1; }
	@git diff --exit-code || { echo "generated files are stale: run make generate manifests tidy, and commit"; exit 1; }
	@test -z "$$(git status --porcelain)" || { git status --short; echo "files are missing from the commit"; exit 1; }

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run the linters.
	for module in $(MODULES); do (cd $$module && $(BIN)/golangci-lint run --build-tags e2e_node,soak ./...) || exit 1; done

.PHONY: clean
clean: ## Remove all binaries.
	rm -rf $(BIN)

$(BIN)/controller-gen: hack/tools/go.mod
	cd hack/tools && GOWORK=off go build -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(BIN)/crd-ref-docs: hack/tools/go.mod
	cd hack/tools && GOWORK=off go build -o $@ github.com/elastic/crd-ref-docs

$(BIN)/cyclonedx-gomod: hack/sbom/go.mod
	cd hack/sbom && GOWORK=off go build -o $@ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

$(BIN)/golangci-lint: hack/lint/go.mod
	cd hack/lint && GOWORK=off go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
