// Pins the flux command line that hack/build.sh flux-cli builds. The build happens in a
// copy of that module, with its own go.mod and go.sum, because the module lacks manifests
// that its source embeds; so nothing else of its dependencies is named here, and
// `go mod tidy`, which would remove the line below, is not for this module.
module github.com/sluice-toolkit/sluice/hack/flux-cli

go 1.26.0

require github.com/fluxcd/flux2/v2 v2.9.5
