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

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
	"github.com/sluice-toolkit/sluice/gate-controller/internal/source"
)

func TestAGateIsNotClosedForLessThanNoTime(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(gatingv1.AddToScheme(scheme)).To(Succeed())
	g.Expect(source.AddToScheme(scheme)).To(Succeed())
	closed := gate("freeze", true)
	// The wall clock was set back.
	closed.Status.LastTransitionTime = &metav1.Time{Time: time.Now().Add(time.Hour)}
	closed.Status.Conditions = []metav1.Condition{{Type: gatingv1.OpenCondition, Status: metav1.ConditionFalse}}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(closed)
	for _, kind := range source.Kinds {
		builder.WithIndex(kind.New(), gateIndex, func(client.Object) []string { return nil })
	}
	elected := make(chan struct{})
	close(elected)

	registry := prometheus.NewRegistry()
	g.Expect(registry.Register(&Metrics{Reader: builder.Build(), Kinds: source.Kinds, Now: time.Now, Elected: elected})).To(Succeed())
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	seconds := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			seconds[family.GetName()] = metric.GetGauge().GetValue()
		}
	}
	g.Expect(seconds).To(HaveKeyWithValue("sluice_gate_closed_duration_seconds", 0.0))
}
