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

package plan

import (
	"reflect"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
)

func TestNoFieldOfTheStatusIsForgotten(t *testing.T) {
	g := NewWithT(t)
	p := &planner{World: World{Pipeline: &pipelinesv1.Pipeline{}}}
	was, is := reflect.ValueOf(&p.World.Pipeline.Status).Elem(), reflect.ValueOf(&p.pipeline.Status).Elem()
	grow(was)
	grow(is)
	p.pipeline.Status.Environments[""].History = p.World.Pipeline.Status.Environments[""].History
	g.Expect(p.unchanged()).To(BeTrue())
	visited := 0
	visit(is, "status", func(path string, part reflect.Value) {
		visited++
		before := reflect.New(part.Type()).Elem()
		before.Set(part)
		change(g, path, part)
		g.Expect(p.unchanged()).To(BeFalse(), path)
		part.Set(before)
	})
	g.Expect(p.unchanged()).To(BeTrue())
	g.Expect(visited).To(BeNumerically(">", 50))
}

// grow gives each pointer, list and map in a value one element.
func grow(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		grow(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		grow(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		element := reflect.New(v.Type().Elem()).Elem()
		grow(element)
		v.SetMapIndex(reflect.Zero(v.Type().Key()), element)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type() != reflect.TypeFor[metav1.Time]() {
				grow(v.Field(i))
			}
		}
	}
}

// visit calls a function for each part of a value that grow made. The history is one part: its records never change.
func visit(v reflect.Value, path string, call func(path string, part reflect.Value)) {
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[metav1.Time]():
		for i := range v.NumField() {
			visit(v.Field(i), path+"."+v.Type().Field(i).Name, call)
		}
		return
	case v.Kind() == reflect.Pointer:
		visit(v.Elem(), path, call)
	case v.Kind() == reflect.Slice && v.Type() != reflect.TypeFor[[]pipelinesv1.PromotionRecord]():
		visit(v.Index(0), path, call)
	case v.Type() == reflect.TypeFor[map[string]*pipelinesv1.EnvironmentStatus]():
		visit(v.MapIndex(reflect.Zero(v.Type().Key())).Elem(), path, call)
	}
	call(path, v)
}

// change gives a part of the status another value.
func change(g *WithT, path string, part reflect.Value) {
	switch {
	case part.Type() == reflect.TypeFor[metav1.Time]():
		part.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1, 0))))
	case part.Kind() == reflect.String:
		part.SetString("x")
	case part.Kind() == reflect.Bool:
		part.SetBool(true)
	case part.CanInt():
		part.SetInt(1)
	default:
		g.Expect(part.IsZero()).To(BeFalse(), "%s must be changed in another way", path)
		part.SetZero()
	}
}
