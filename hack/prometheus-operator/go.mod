// Pins the CRDs of the Prometheus Operator, on which tests/manifests tries what config/components has for it. Only files of the module are
// read: nothing of it is compiled, and `go mod tidy`, which would remove the line below, is not for this module.
module github.com/sluice-toolkit/sluice/hack/prometheus-operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
