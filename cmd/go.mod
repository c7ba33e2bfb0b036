module github.com/sluice-toolkit/sluice/cmd

go 1.26.0

require (
	github.com/sluice-toolkit/sluice/api v0.0.0
	github.com/sluice-toolkit/sluice/tests v0.0.0
)

replace github.com/sluice-toolkit/sluice/api => ../api

replace github.com/sluice-toolkit/sluice/tests => ../tests
