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

package ownwrites

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOwnWrites(t *testing.T) {
	at := func(version string) *corev1.ConfigMap {
		obj := &corev1.ConfigMap{}
		obj.Namespace, obj.Name, obj.ResourceVersion = "default", "app", version
		return obj
	}
	name := types.NamespacedName{Namespace: "default", Name: "app"}

	for _, test := range []struct {
		name   string
		before func(*Log)
		cached string
		ahead  bool
	}{
		{"nothing was written", func(*Log) {}, "5", false},
		{"the cache has come as far as the write", func(o *Log) { o.Remember(at("5")) }, "5", false},
		{"the cache is past it", func(o *Log) { o.Remember(at("5")) }, "10", false},
		{"the cache has yet to come to it", func(o *Log) { o.Remember(at("10")) }, "9", true},
		{"the object is gone, and another one came in its place", func(o *Log) { o.Remember(at("10")); o.Forget(name) }, "9", false},
		{"versions can't be compared", func(o *Log) { o.Remember(at("x")) }, "9", false},
		{"the API server was set back to a backup a while ago", func(o *Log) {
			o.writes.Store(name, write{version: "10", at: time.Now().Add(-longestLag)})
		}, "9", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			own := &Log{}
			test.before(own)
			NewWithT(t).Expect(own.IsAheadOf(at(test.cached))).To(Equal(test.ahead))
		})
	}
}
