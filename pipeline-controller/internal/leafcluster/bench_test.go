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

package leafcluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	pipelinesv1 "github.com/sluice-toolkit/sluice/api/pipelines/v1alpha1"
	"github.com/sluice-toolkit/sluice/pipeline-controller/internal/leafcluster"
	"github.com/sluice-toolkit/sluice/tests/leafserver"
)

var (
	benchLeafs   = flag.Int("leafs", 200, "benchmarks: the number of leaf clusters")
	benchTargets = flag.Int("targets", 10, "benchmarks: the number of targets in each, every one in a namespace of its own")
)

// serveLeafs runs the leaf clusters in a process of their own, so their memory is not counted. It prints their
// kubeconfigs, and ends at the end of its input.
func serveLeafs(leafs, targets int) error {
	for range leafs {
		leaf, err := leafserver.Start(leafserver.Kustomization)
		if err != nil {
			return err
		}
		for i := range targets {
			leaf.Put(leafserver.Object{Namespace: fmt.Sprint("prod-", i), Name: "app", Revision: "v1", Ballast: 4 << 10})
		}
		line, err := json.Marshal(string(leaf.Kubeconfig(leafserver.Token)))
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// startLeafs starts that process and returns the kubeconfigs of the leafs.
func startLeafs(b *testing.B, leafs, targets int) [][]byte {
	b.Helper()
	g := NewWithT(b)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d", leafsVariable, leafs, targets))
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	stdout, err := command.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(command.Start()).To(Succeed())
	b.Cleanup(func() {
		g.Expect(stdin.Close()).To(Succeed())
		_ = command.Wait()
	})
	lines := bufio.NewReader(stdout)
	kubeconfigs := make([][]byte, leafs)
	for i := range kubeconfigs {
		line, err := lines.ReadBytes('\n')
		g.Expect(err).NotTo(HaveOccurred())
		var kubeconfig string
		g.Expect(json.Unmarshal(line, &kubeconfig)).To(Succeed())
		kubeconfigs[i] = []byte(kubeconfig)
	}
	return kubeconfigs
}

// BenchmarkLeafs measures, with the default timing, what many leaf clusters take: the time until all targets are known,
// and memory.
func BenchmarkLeafs(b *testing.B) {
	kubeconfigs := startLeafs(b, *benchLeafs, *benchTargets)
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b, func(o *leafcluster.Options) { o.Timing = leafcluster.Timing{} })
		var pipelines []*pipelinesv1.Pipeline
		for i, kubeconfig := range kubeconfigs {
			name := fmt.Sprint("leaf-", i)
			w.create(gitopsCluster(name), secret(name, "value", kubeconfig))
			var targets []pipelinesv1.Target
			for j := range *benchTargets {
				t := inCluster(name)
				t.Namespace = fmt.Sprint("prod-", j)
				targets = append(targets, t)
			}
			pipelines = append(pipelines, pipeline(name, targets...))
		}
		before := memory()
		b.StartTimer()

		began := time.Now()
		for _, p := range pipelines {
			w.Want(context.Background(), p)
		}
		first := time.Duration(0)
		for known := 0; known < len(pipelines)**benchTargets; {
			known = 0
			for _, p := range pipelines {
				for _, env := range p.Spec.Environments {
					if w.Read(context.Background(), p, env.Targets[0]).Known {
						known++
					}
				}
			}
			if known > 0 && first == 0 {
				first = time.Since(began)
			}
			if time.Since(began) > 5*time.Minute {
				b.Fatalf("%d targets are known", known)
			}
			time.Sleep(10 * time.Millisecond)
		}
		all := time.Since(began)
		b.StopTimer()
		after := memory()
		targets := float64(len(pipelines) * *benchTargets)
		b.ReportMetric(first.Seconds(), "s-to-the-first")
		b.ReportMetric(all.Seconds(), "s-to-all")
		b.ReportMetric(float64(after.HeapInuse-before.HeapInuse)/targets/1024, "heap-KB/target")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/targets/1024, "stack-KB/target")
		b.ReportMetric(float64(runtime.NumGoroutine())/targets, "goroutines/target")
		w.stop()
		b.StartTimer()
	}
	b.ReportMetric(0, "ns/op")
}

func memory() runtime.MemStats {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats
}
