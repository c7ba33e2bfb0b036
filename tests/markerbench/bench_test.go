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

// Package markerbench measures setting markers in a tree of files, compared with kyaml's setters, which Flux's image
// automation uses.
package markerbench

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/kustomize/kyaml/fieldmeta"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/kio/kioutil"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/sluice-toolkit/sluice/api/marker"
)

var (
	environments = []string{"dev", "test", "staging", "prod"}
	// promoted is whose markers are set. It has the files of one application in one environment, in any tree.
	promoted = marker.Key{Namespace: "flux-system", Pipeline: "app-3", Environment: "prod"}
)

// filesPerApp is the number of files of an application in each environment.
const filesPerApp = 10

const marked = `---
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata:
  name: %[1]s-%[3]d
  namespace: %[2]s
spec:
  interval: 10m
  url: oci://ghcr.io/example/%[1]s # the application's own registry
  ref:
    tag: v1.0.0 # {"$promotion": "flux-system:%[1]s:%[2]s:tag"}
`

const unmarked = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s-%[3]d
  namespace: %[2]s
  labels:
    app.kubernetes.io/name: %[1]s
spec:
  replicas: 3
  selector:
    matchLabels: {app.kubernetes.io/name: %[1]s, component: "%[3]d"}
  template:
    metadata:
      labels: {app.kubernetes.io/name: %[1]s, component: "%[3]d"}
    spec:
      containers:
      - name: server
        image: ghcr.io/example/%[1]s:v1.0.0
        args: ["--listen=:8080", "--log-level=info"]
        env: # set in each environment
        - name: ENVIRONMENT
          value: %[2]s
        - name: WORKERS
          value: "4"
        ports:
        - {name: http, containerPort: 8080}
        resources:
          requests: {cpu: 100m, memory: 64Mi}
          limits: {memory: 128Mi}
        readinessProbe:
          httpGet: {path: /healthz, port: http}
---
apiVersion: v1
kind: Service
metadata:
  name: %[1]s-%[3]d
  namespace: %[2]s
spec:
  selector: {app.kubernetes.io/name: %[1]s, component: "%[3]d"}
  ports:
  - {name: http, port: 80, targetPort: http}
`

// newTree writes a fleet of that many files: applications, in four environments each, with markers in some files of
// each.
func newTree(b *testing.B, files, markedPerApp int) string {
	b.Helper()
	dir := b.TempDir()
	for i := range files {
		app := fmt.Sprintf("app-%d", i/(filesPerApp*len(environments)))
		env := environments[i/filesPerApp%len(environments)]
		name, content := fmt.Sprintf("part-%d.yaml", i%filesPerApp), fmt.Sprintf(unmarked, app, env, i%filesPerApp)
		if i%filesPerApp < markedPerApp {
			content += fmt.Sprintf(marked, app, env, i%filesPerApp)
		}
		path := filepath.Join(dir, "apps", app, env)
		if err := os.MkdirAll(path, 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, name), []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// eachFile reads the files that may contain markers.
func eachFile(b *testing.B, dir string, visit func(path string, content []byte)) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if !marker.MayHold(path) {
			return nil
		}
		content, err := os.ReadFile(path)
		visit(path, content)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// revision returns a different revision each time, so there is something to write.
func revision(i int) string { return fmt.Sprintf("v1.%d.0", i+1) }

// set sets the markers as a promotion does, and returns the number of fields.
func set(b *testing.B, dir, rev string) (fields int) {
	eachFile(b, dir, func(path string, content []byte) {
		out, n, err := marker.Set(path, content, promoted, rev)
		if err != nil {
			b.Fatal(err)
		}
		fields += n
		if n > 0 {
			if err := os.WriteFile(path, out, 0o600); err != nil {
				b.Fatal(err)
			}
		}
	})
	return fields
}

func init() {
	fieldmeta.SetShortHandRef("$promotion")
	// As in Flux, only comments select fields, so Kubernetes' schemas need not be read.
	openapi.SuppressBuiltInSchemaUse()
}

// setters is a filter of kyaml that sets the fields whose comments name a setter of the schema.
type setters struct {
	schema *spec.Schema
	fields int
}

func newSetters(rev string) *setters {
	definition := spec.StringProperty()
	definition.Default = rev
	name := fieldmeta.SetterDefinitionPrefix + promoted.String() + ":tag"
	return &setters{schema: &spec.Schema{SchemaProps: spec.SchemaProps{Definitions: spec.Definitions{name: *definition}}}}
}

// Filter sets the fields, and returns the nodes of the files in which there were any: the others need not be written.
func (s *setters) Filter(nodes []*yaml.RNode) ([]*yaml.RNode, error) {
	changed := map[string]bool{}
	paths := make([]string, len(nodes))
	for i, node := range nodes {
		var err error
		if paths[i], _, err = kioutil.GetFileAnnotations(node); err != nil {
			return nil, err
		}
		before := s.fields
		if err := s.visit(node); err != nil {
			return nil, err
		}
		if s.fields > before {
			changed[paths[i]] = true
		}
	}
	var out []*yaml.RNode
	for i, node := range nodes {
		if changed[paths[i]] {
			out = append(out, node)
		}
	}
	return out, nil
}

func (s *setters) visit(node *yaml.RNode) error {
	switch node.YNode().Kind {
	case yaml.MappingNode:
		return node.VisitFields(func(field *yaml.MapNode) error { return s.visit(field.Value) })
	case yaml.SequenceNode:
		return node.VisitElements(s.visit)
	case yaml.ScalarNode:
		meta := fieldmeta.FieldMeta{SettersSchema: s.schema}
		if err := meta.Read(node); err != nil || meta.Schema.Ref.String() == "" {
			return err
		}
		definition, err := openapi.Resolve(&meta.Schema.Ref, s.schema)
		if err != nil {
			return err
		}
		node.YNode().Value = definition.Default.(string)
		s.fields++
	}
	return nil
}

// setWithKyaml sets the same fields with kyaml, in the files that read finds.
func setWithKyaml(b *testing.B, dir, rev string, read kio.Reader) (fields int) {
	filter := newSetters(rev)
	pipeline := kio.Pipeline{
		Inputs:  []kio.Reader{read},
		Filters: []kio.Filter{filter},
		Outputs: []kio.Writer{kio.LocalPackageWriter{PackagePath: dir}},
	}
	if err := pipeline.Execute(); err != nil {
		b.Fatal(err)
	}
	return filter.fields
}

// allFiles reads as kyaml itself does.
func allFiles(dir string) kio.Reader {
	return kio.LocalPackageReader{PackagePath: dir, PreserveSeqIndent: true}
}

// markedFiles reads as Flux's image automation does: only those files are parsed that hold any marker.
type markedFiles struct {
	b   *testing.B
	dir string
}

func (r markedFiles) Read() (nodes []*yaml.RNode, err error) {
	eachFile(r.b, r.dir, func(path string, content []byte) {
		if !marker.Mentions(content) {
			return
		}
		name, err := filepath.Rel(r.dir, path)
		if err != nil {
			r.b.Fatal(err)
		}
		reader := kio.ByteReader{
			Reader: bytes.NewReader(content), SetAnnotations: map[string]string{kioutil.PathAnnotation: name}, PreserveSeqIndent: true,
		}
		read, err := reader.Read()
		if err != nil {
			r.b.Fatal(err)
		}
		nodes = append(nodes, read...)
	})
	return nodes, nil
}

func BenchmarkSet(b *testing.B) {
	for _, tree := range []struct {
		files, markedPerApp int
		name                string
	}{
		{2_000, 1, "2,000 files, markers in a tenth"},
		{2_000, filesPerApp, "2,000 files, markers in all"},
		{50_000, 1, "50,000 files, markers in a tenth"},
	} {
		dir := newTree(b, tree.files, tree.markedPerApp)
		run := func(name string, once func(b *testing.B, rev string) (fields int)) {
			b.Run(tree.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if fields := once(b, revision(i)); fields != tree.markedPerApp {
						b.Fatalf("%d fields were set", fields)
					}
				}
			})
		}
		b.Run(tree.name+"/only read", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read := 0
				eachFile(b, dir, func(string, []byte) { read++ })
				if read != tree.files {
					b.Fatalf("%d files were read", read)
				}
			}
		})
		run("sluice", func(b *testing.B, rev string) int { return set(b, dir, rev) })
		run("kyaml as Flux uses it", func(b *testing.B, rev string) int {
			return setWithKyaml(b, dir, rev, markedFiles{b: b, dir: dir})
		})
		run("kyaml", func(b *testing.B, rev string) int { return setWithKyaml(b, dir, rev, allFiles(dir)) })
	}
}
