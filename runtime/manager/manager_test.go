/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package manager

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
)

func TestShardsAndNamespaces(t *testing.T) {
	t.Setenv("RUNTIME_NAMESPACE", "flux-system")
	for _, test := range []struct {
		name          string
		args          []string
		lease         string
		onlyNamespace string
		ownNamespace  bool
	}{
		{name: "a controller of all namespaces follows references across them", lease: "gate-controller-leader-election"},
		{name: "a controller of one namespace sees no others", args: []string{"--watch-all-namespaces=false"},
			lease: "gate-controller-leader-election", onlyNamespace: "flux-system", ownNamespace: true},
		{name: "references across namespaces can be denied", args: []string{"--no-cross-namespace-refs"},
			lease: "gate-controller-leader-election", ownNamespace: true},
		{name: "a shard has a lease of its own", args: []string{"--watch-label-selector=shard=one"},
			lease: "gate-controller-leader-election-d8536a4a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			var options Options
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			options.BindFlags(flags)
			g.Expect(flags.Parse(test.args)).To(Succeed())
			g.Expect(options.LeaderElectionID("gate-controller")).To(Equal(test.lease))
			g.Expect(options.OnlyNamespace()).To(Equal(test.onlyNamespace))
			g.Expect(options.NoCrossNamespaceRefs()).To(Equal(test.ownNamespace))
		})
	}
}
