# make demo   shows Sluice at work on this machine
# make test   runs all tests but those that need pods, which make e2e runs, and those that take long, which make soak runs
# They build what they need, from Go modules, into bin/. The first time that takes some minutes.

BIN := $(CURDIR)/bin
MODULES := api runtime gate-controller pipeline-controller flux-cli-plugin release tests cmd

VERBS := open close approve gate pipeline

# Where the local cluster finds its programs. KUBEBUILDER_ASSETS, when set, goes before it for those of the control plane.
export SLUICE_BIN := $(BIN)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use

.PHONY: demo
demo: binaries build ## Show one revision travel from dev to prod, and a gate hold it. ARGS=--keep leaves it running.
	@$(BIN)/sluice-local $(ARGS)

.PHONY: test
test: binaries build ## Run all tests but those of make e2e and make soak.
	@hack/build.sh flux-cli
	go test -count=1 -timeout 45m $(MODULES:%=./%/...) $(ARGS)

# By a count, of about a minute: one that ends by the clock fails at times, up to Go 1.26 (golang/go#75804).
.PHONY: fuzz
fuzz: ## Edit marked files that nobody would write, for about a minute.
	go test -run '^$$' -fuzz '^FuzzSet$$' -fuzztime 500000x -fuzzminimizetime 1x ./api/marker

.PHONY: e2e
e2e: ## Run the tests that need pods or networks, on a node of this machine. As root, on Linux. ARGS goes to go test.
	@test "$$(uname) $$(id -u)" = "Linux 0" || { echo "make e2e runs containers, which takes Linux and root: sudo make e2e" >&2; exit 1; }
	@hack/build.sh controlplane flux node
	@mkdir -p $(BIN)/node
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o $(BIN)/node/ ./tests/localnode/...
	@$(MAKE) images PLATFORMS=linux/$$(go env GOARCH) REGISTRY=
	go build -o $(BIN)/pipeline-controller ./pipeline-controller
	go test -count=1 -timeout 30m -p 1 -tags e2e_node ./tests/localnode ./tests/e2enode ./tests/leafnet $(ARGS)

# First the specs that take long, which make test leaves out. Then a test of an hour, whose length DURATION changes. SEED repeats what was
# chosen at random. It ends by itself, whatever it takes to settle.
.PHONY: soak
soak: binaries build ## Run the tests that take long: Sluice at work for an hour, with hostile hosts and random kills, on Linux. DURATION=10m for a short one.
	@hack/build.sh flux-cli
	go test -count=1 -timeout 45m ./tests/e2e -ginkgo.label-filter=slow
	go test -count=1 -timeout 0 -v -tags soak ./tests/soak $(ARGS)

.PHONY: binaries
binaries: ## Build the control plane, Flux and Gitea for this machine.
	@hack/build.sh controlplane flux gitea

.PHONY: node
node: ## Build the programs of a node, and install those of the system that it needs.
	@hack/build.sh node

.PHONY: build
build: ## Build Sluice.
	@mkdir -p $(BIN)/plugins
	go build -o $(BIN)/gate-controller ./gate-controller
	go build -o $(BIN)/pipeline-controller ./pipeline-controller
	go build -o $(BIN)/flux-sluice ./flux-cli-plugin
	go build -o $(BIN)/sluice-local ./cmd/sluice-local
	@$(foreach verb,$(VERBS),ln -sf ../flux-sluice $(BIN)/plugins/flux-$(verb);)

##@ Release

# A release is the version that is given here, and nothing else: no file has it.
VERSION ?= v0.0.0-dev
REVISION ?= $(shell git rev-parse HEAD)
release = go run ./release $(1) -version $(VERSION) -revision $(REVISION) -dir $(BIN)/release $(if $(REGISTRY),-registry $(REGISTRY))

.PHONY: images
images: ## Write images, and manifests that name them, to bin/release. VERSION, PLATFORMS. With REGISTRY=host/path, push them there.
	$(call release,images) $(if $(PLATFORMS),-platforms $(PLATFORMS))
	$(if $(REGISTRY),@hack/build.sh flux-cli)
	$(if $(REGISTRY),$(call release,push))

##@ Develop

.PHONY: generate
generate: $(BIN)/controller-gen ## Write the generated Go code.
	cd api && $(BIN)/controller-gen object:headerFile=../hack/boilerplate.go.txt paths=./...
	cd gate-controller && $(BIN)/controller-gen object:headerFile=../hack/boilerplate.go.txt paths=./internal/source

.PHONY: manifests
manifests: $(BIN)/controller-gen $(BIN)/crd-ref-docs ## Write the CRDs, the controllers' roles and docs/api.
	cd api && $(BIN)/controller-gen crd paths=./gating/... paths=./pipelines/... output:crd:dir=../config/crd/bases
	cd api && $(BIN)/controller-gen crd paths=./gitops/... output:crd:dir=../config/components/gitops-clusters
	for controller in gate-controller pipeline-controller; do (cd $$controller && \
		$(BIN)/controller-gen rbac:roleName=sluice-$$controller,fileName=$${controller}_role.yaml paths=./... output:rbac:dir=../config/rbac) || exit 1; done
	@mkdir -p docs/api
	for kind in gating pipelines gitops; do $(BIN)/crd-ref-docs --log-level=ERROR --renderer=markdown --config=hack/crd-ref-docs.yaml \
		--source-path=api/$$kind --output-path=docs/api/$$kind.md || exit 1; done

.PHONY: tidy
tidy: ## Tidy all modules.
	for module in $(MODULES); do (cd $$module && GOWORK=off go mod tidy) || exit 1; done

.PHONY: verify
verify: generate manifests tidy ## Fail if anything generated is stale.
	go vet $(MODULES:%=./%/...)
	go vet -tags e2e_node,soak ./tests/...
	@test -z "$$(gofmt -l $(MODULES))" || { gofmt -l $(MODULES); echo "run gofmt"; exit 1; }
	@git diff --exit-code || { echo "generated files are stale: run make generate manifests tidy, and commit"; exit 1; }
	@test -z "$$(git status --porcelain)" || { git status --short; echo "files are missing from the commit"; exit 1; }

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run the linters.
	for module in $(MODULES); do (cd $$module && $(BIN)/golangci-lint run --build-tags e2e_node,soak ./...) || exit 1; done

.PHONY: clean
clean: ## Remove everything built.
	rm -rf $(BIN)

$(BIN)/controller-gen: hack/tools/go.mod
	cd hack/tools && GOWORK=off go build -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(BIN)/crd-ref-docs: hack/tools/go.mod
	cd hack/tools && GOWORK=off go build -o $@ github.com/elastic/crd-ref-docs

$(BIN)/golangci-lint: hack/lint/go.mod
	cd hack/lint && GOWORK=off go build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
