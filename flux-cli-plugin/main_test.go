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

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

var (
	kube       client.Client
	kubeconfig []byte
	// user is the name that the API server knows the programs by.
	user string
)

// TestMain runs the program itself if the test binary is called by one of its names, so the tests can start it like
// flux: as a process, through a link. Otherwise it runs the tests.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "flux-open", "flux-close", "flux-approve", "flux-pass", "flux-gate", "flux-pipeline", "flux-sluice", "sluice":
		main()
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	SetDefaultEventuallyTimeout(2 * time.Minute)

	env := newEnvironment()
	env.CRDDirectoryPaths = []string{filepath.Join("..", "config", "crd", "bases")}
	env.ErrorIfCRDPathMissing = true
	config, err := env.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	defer func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			code = 1
		}
	}()
	if err := gatingv1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	if kube, err = client.New(config, client.Options{}); err != nil {
		panic(err)
	}
	kubeconfig = env.KubeConfig
	self := &authenticationv1.SelfSubjectReview{}
	if err := kube.Create(context.Background(), self); err != nil {
		panic(err)
	}
	user = self.Status.UserInfo.Username
	return m.Run()
}

func newEnvironment() *envtest.Environment {
	env := &envtest.Environment{}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		env.BinaryAssetsDirectory = filepath.Join("..", "bin")
	}
	return env
}

func TestOpenAndClose(t *testing.T) {
	for _, tt := range []struct {
		name       string
		closed     bool
		reason     string
		command    string
		wantClosed bool
		wantReason string
		wantOutput string
	}{
		{
			name:       "opening a closed gate opens it",
			closed:     true,
			command:    "flux-open gate freeze --wait=false",
			wantOutput: "► opening gate freeze in NAMESPACE namespace\n✔ gate opened\n",
		},
		{
			name:       "closing an open gate closes it",
			command:    "flux-close gate freeze --wait=false",
			wantClosed: true,
			wantOutput: "► closing gate freeze in NAMESPACE namespace\n✔ gate closed\n",
		},
		{
			name:       "the verb is the first argument of a program with any other name",
			closed:     true,
			command:    "sluice open gate freeze --wait=false",
			wantOutput: "► opening gate freeze in NAMESPACE namespace\n✔ gate opened\n",
		},
		{
			name:       "a reason is kept on one line",
			command:    "flux-close gate freeze --wait=false --reason=\u00a0release\n\u00a0week",
			wantClosed: true,
			wantReason: "release week",
			wantOutput: "► closing gate freeze in NAMESPACE namespace\n✔ gate closed\n",
		},
		{
			name:       "the reason for closing does not stay on an opened gate",
			closed:     true,
			reason:     "release week",
			command:    "flux-open gate freeze --wait=false",
			wantOutput: "► opening gate freeze in NAMESPACE namespace\n✔ gate opened\n",
		},
		{
			name:       "a new reason replaces the old one",
			closed:     true,
			reason:     "release-week",
			command:    "flux-open gate freeze --wait=false --reason=released",
			wantReason: "released",
			wantOutput: "► opening gate freeze in NAMESPACE namespace\n✔ gate opened\n",
		},
		{
			name:       "a gate that is already closed stays as it is",
			closed:     true,
			reason:     "release-week",
			command:    "flux-close gate freeze",
			wantClosed: true,
			wantReason: "release-week",
			wantOutput: "✔ gate freeze in NAMESPACE namespace is already closed\n",
		},
		{
			name:       "a gate that is already open stays as it is",
			command:    "flux-open gate freeze",
			wantOutput: "✔ gate freeze in NAMESPACE namespace is already open\n",
		},
		{
			name:       "a gate that is already closed for the given reason stays as it is",
			closed:     true,
			reason:     "release-week",
			command:    "flux-close gate freeze --reason=release-week",
			wantClosed: true,
			wantReason: "release-week",
			wantOutput: "✔ gate freeze in NAMESPACE namespace is already closed\n",
		},
		{
			name:       "a gate that is already closed gets a new reason",
			closed:     true,
			reason:     "release-week",
			command:    "flux-close gate freeze --wait=false --reason=incident",
			wantClosed: true,
			wantReason: "incident",
			wantOutput: "► closing gate freeze in NAMESPACE namespace\n✔ gate is already closed; reason changed\n",
		},
		{
			name:       "an empty reason removes the old one",
			closed:     true,
			reason:     "release-week",
			command:    "flux-close gate freeze --wait=false --reason=",
			wantClosed: true,
			wantOutput: "► closing gate freeze in NAMESPACE namespace\n✔ gate is already closed; reason changed\n",
		},
		{
			name:    "--verbose shows what is sent",
			closed:  true,
			command: "flux-open gate freeze --wait=false --verbose",
			wantOutput: "► opening gate freeze in NAMESPACE namespace\n" +
				`✚ {"apiVersion":"gating.toolkit.fluxcd.io/v1alpha1","kind":"Gate","metadata":{"annotations":{"gating.toolkit.fluxcd.io/turned-by":"USER"},` +
				`"name":"freeze","namespace":"NAMESPACE","uid":"UID"},"spec":{"closed":false}}` +
				"\n✔ gate opened\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			gate := newGate(t, newNamespace(t), "freeze", func(gate *gatingv1.Gate) {
				gate.Spec.Closed = tt.closed
				gate.Annotations = map[string]string{"team": "platform"}
				if tt.reason != "" {
					gate.Annotations[gatingv1.ReasonAnnotation] = tt.reason
				}
			})

			session := start(t, strings.Split(tt.command, " "), "FLUX_SYSTEM_NAMESPACE="+gate.Namespace)
			g.Eventually(session).Should(gexec.Exit(0), string(session.Err.Contents()))
			replaced := strings.NewReplacer("NAMESPACE", gate.Namespace, "USER", user, "UID", string(gate.UID))
			g.Expect(string(session.Err.Contents())).To(Equal(replaced.Replace(tt.wantOutput)))

			reread(t, gate)
			wantAnnotations := map[string]string{"team": "platform"}
			if strings.Contains(tt.wantOutput, "►") {
				wantAnnotations[gatingv1.TurnedByAnnotation] = user
			}
			if tt.wantReason != "" {
				wantAnnotations[gatingv1.ReasonAnnotation] = tt.wantReason
			}
			g.Expect(gate.Spec.Closed).To(Equal(tt.wantClosed))
			g.Expect(gate.Annotations).To(Equal(wantAnnotations))
		})
	}
}

func TestSeveralGatesAreTurned(t *testing.T) {
	for _, tt := range []struct {
		name       string
		command    string
		wantExit   int
		wantOutput string
		// wantClosed are the states of the gates a and b, which is closed at first.
		wantClosed [2]bool
	}{
		{
			name:       "each once",
			command:    "flux-close gate a b a --wait=false",
			wantOutput: "► closing gate a in NAMESPACE namespace\n✔ gate closed\n✔ gate b in NAMESPACE namespace is already closed\n",
			wantClosed: [2]bool{true, true},
		},
		{
			name:       "none, if one does not exist",
			command:    "flux-gate close a c",
			wantExit:   1,
			wantOutput: "✗ gate c not found in NAMESPACE namespace, which has: a, b\n",
			wantClosed: [2]bool{false, true},
		},
		{
			name:     "all are turned before the first is waited for",
			command:  "flux-gate close a b --for 2h --timeout 2s",
			wantExit: 1,
			wantOutput: "► closing gate a in NAMESPACE namespace\n✔ gate closed\n► closing gate b in NAMESPACE namespace\n✔ gate closed\n" +
				"◎ waiting for gate reconciliation\n" +
				"✗ gate a is closed, but gate-controller has not reconciled it yet: check that it is running (kubectl get deployments --all-namespaces --field-selector metadata.name=gate-controller)\n" +
				"✗ gate b is closed, but gate-controller has not reconciled it yet: check that it is running (kubectl get deployments --all-namespaces --field-selector metadata.name=gate-controller)\n" +
				"✗ 2 of 2 gates failed\n",
			wantClosed: [2]bool{false, true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			namespace := newNamespace(t)
			a, b := newGate(t, namespace, "a"), newGate(t, namespace, "b", closed)

			session := start(t, strings.Fields(tt.command), "FLUX_SYSTEM_NAMESPACE="+namespace)
			g.Eventually(session).Should(gexec.Exit(tt.wantExit))
			g.Expect(string(session.Err.Contents())).To(Equal(strings.ReplaceAll(tt.wantOutput, "NAMESPACE", namespace)))

			reread(t, a)
			reread(t, b)
			g.Expect([2]bool{a.Spec.Closed, b.Spec.Closed}).To(Equal(tt.wantClosed))
		})
	}
}

func TestChangesAreMadeInTheNameOfFlux(t *testing.T) {
	g := NewWithT(t)
	gate := newGate(t, newNamespace(t), "freeze", closed)

	g.Eventually(start(t, []string{"flux-open", "gate", "freeze", "--wait=false", "-n", gate.Namespace})).Should(gexec.Exit(0))

	reread(t, gate)
	g.Expect(gate.ManagedFields).To(ContainElement(HaveField("Manager", "flux")))
}

func TestAGateSaysWhoTurnedIt(t *testing.T) {
	g := NewWithT(t)
	gate := newGate(t, newNamespace(t), "freeze")
	turn := func(args ...string) gatingv1.State {
		t.Helper()
		g.Eventually(start(t, append(args, "--wait=false", "-n", gate.Namespace))).Should(gexec.Exit(0))
		reread(t, gate)
		return gate.StateAt(time.Now())
	}
	g.Expect(turn("flux-close", "gate", "freeze", "--reason=INC-4711").By).To(Equal(gatingv1.Turner{User: user}))
	g.Expect(turn("flux-open", "gate", "freeze").By).To(Equal(gatingv1.Turner{User: user}))
	g.Expect(turn("flux-close", "gate", "freeze").By).To(Equal(gatingv1.Turner{User: user}))

	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"closed":false}}`))
	g.Expect(kube.Patch(t.Context(), gate, patch, client.FieldOwner("kubectl-patch"))).To(Succeed())
	g.Expect(gate.StateAt(time.Now()).By).To(Equal(gatingv1.Turner{FieldManager: "kubectl-patch"}), "the name is that of an earlier turn")

	g.Expect(turn("flux-close", "gate", "freeze").By).To(Equal(gatingv1.Turner{User: user}))
	g.Expect(turn("flux-open", "gate", "freeze", "--for=2h").String()).To(HavePrefix("open by override until "))
	g.Expect(gate.Spec.Closed).To(BeTrue(), "the switch stays as it is")
	g.Expect(gate.StateAt(time.Now().Add(3 * time.Hour)).String()).To(Equal("closed by " + user))
	g.Expect(turn("flux-open", "gate", "freeze").String()).To(Equal("open"))

	overridden := turn("flux-close", "gate", "freeze", "--for=2h", "--reason=INC-4712")
	g.Expect(overridden.By).To(Equal(gatingv1.Turner{User: user}))
	g.Expect(overridden.Reason).To(Equal("INC-4712"))
	g.Expect(turn("flux-close", "gate", "freeze", "--for=1h").Reason).To(BeEmpty(), "an override takes the place of another one, with its reason")
	g.Expect(gate.StateAt(time.Now().Add(3*time.Hour)).By).To(Equal(gatingv1.Turner{}), "the clock opens it")
	g.Expect(turn("flux-open", "gate", "freeze").By).To(Equal(gatingv1.Turner{User: user}))
	g.Expect(gate.Spec.Override).To(BeNil())
}

func TestFlagsMayComeBeforeAndAfterTheVerbAndTheNoun(t *testing.T) {
	for _, command := range []string{
		"flux-open gate freeze -n NAMESPACE --timeout 1m --wait=false",
		"flux-open gate -n NAMESPACE freeze --timeout=1m --wait=false",
		"flux-open -n NAMESPACE gate freeze --timeout 1m --wait=false",
		"flux-open --namespace NAMESPACE --timeout 1m --wait=false gate freeze",
		"flux-open --reason because --verbose -nNAMESPACE gate --wait=false freeze",
		"sluice -n NAMESPACE open gate freeze --timeout 1m --wait=false",
		"sluice open --namespace=NAMESPACE --timeout 1m gate --wait=false freeze",
		"sluice --insecure-skip-tls-verify=false --kube-api-qps 10 open -n NAMESPACE gate freeze --wait=false",
	} {
		t.Run(command, func(t *testing.T) {
			g := NewWithT(t)
			gate := newGate(t, newNamespace(t), "freeze", closed)

			session := start(t, strings.Fields(strings.ReplaceAll(command, "NAMESPACE", gate.Namespace)))
			g.Eventually(session).Should(gexec.Exit(0), string(session.Err.Contents()))

			reread(t, gate)
			g.Expect(gate.Spec.Closed).To(BeFalse())
		})
	}
}

// TestEveryFlagOfFluxIsAccepted calls flux itself, with the plugin in its directory. Flux passes on what is before the
// verb, and what follows it.
func TestEveryFlagOfFluxIsAccepted(t *testing.T) {
	flux, environment := fluxWithPlugins(t)
	flags := flagsOfFlux(t, flux)
	NewWithT(t).Expect(flags).To(ContainElements("--namespace=a", "--timeout=1m", "--verbose", "--kube-api-qps=1", "--as-group=a"))

	for _, command := range []string{
		"open gate freeze", "close gate freeze", "approve promotion app", "pass gate freeze",
		"gate list", "gate passes", "gate get freeze", "gate sources", "gate create freeze", "gate calendar freeze", "gate open freeze", "gate close freeze",
		"pipeline list", "pipeline get app", "pipeline why app", "pipeline wait app", "pipeline history app", "pipeline events", "pipeline clusters",
		"pipeline markers", "pipeline approve app", "pipeline reconcile app", "pipeline suspend app", "pipeline resume app",
		"sluice close gate freeze", "sluice pipeline list", "sluice install-verbs", "sluice remove-verbs", "sluice uninstall",
	} {
		verb, rest, _ := strings.Cut(command, " ")
		words := strings.Fields(rest)
		for name, args := range map[string][]string{
			"before": slices.Concat(flags, []string{verb}, words, []string{"--help"}),
			"after":  slices.Concat([]string{verb}, words, flags, []string{"--help"}),
		} {
			t.Run("flux "+command+", with flags "+name, func(t *testing.T) {
				t.Parallel()
				g := NewWithT(t)
				program := exec.CommandContext(t.Context(), flux, args...)
				program.Env = environment
				help, err := program.CombinedOutput()
				g.Expect(err).NotTo(HaveOccurred(), string(help))
				g.Expect(string(help)).To(ContainSubstring("Usage:\n  flux %s %s", verb, words[0]))
			})
		}
	}
}

// fluxWithPlugins returns the program flux, and an environment in which it finds the plugin.
func fluxWithPlugins(t *testing.T) (program string, environment []string) {
	t.Helper()
	g := NewWithT(t)
	bin := os.Getenv("SLUICE_BIN")
	if bin == "" {
		bin = filepath.Join("..", "bin")
	}
	program, err := filepath.Abs(filepath.Join(bin, "flux"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(program).To(BeAnExistingFile(), "hack/build.sh flux-cli builds it")
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	plugins := t.TempDir()
	for _, verb := range []string{"open", "close", "approve", "pass", "gate", "pipeline", "sluice"} {
		g.Expect(os.Symlink(self, filepath.Join(plugins, "flux-"+verb))).To(Succeed())
	}
	return program, []string{"HOME=" + t.TempDir(), "FLUXCD_PLUGINS=" + plugins, "GOCOVERDIR=" + t.TempDir()}
}

// flagsOfFlux returns all flags that every command of flux has, with values, from its help.
func flagsOfFlux(t *testing.T, flux string) []string {
	t.Helper()
	g := NewWithT(t)
	help, err := exec.CommandContext(t.Context(), flux, "get", "--help").Output()
	g.Expect(err).NotTo(HaveOccurred())
	_, global, found := strings.Cut(string(help), "\nGlobal Flags:\n")
	g.Expect(found).To(BeTrue(), string(help))
	values := map[string]string{"": "", "string": "=a", "stringArray": "=a", "duration": "=1m", "int": "=1", "float32": "=1"}
	var flags []string
	for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)(?: ([a-zA-Z0-9]+))?   `).FindAllStringSubmatch(global, -1) {
		value, known := values[flag[2]]
		g.Expect(known).To(BeTrue(), "a value for %s", flag[0])
		flags = append(flags, flag[1]+value)
	}
	return flags
}

func TestNamespace(t *testing.T) {
	inContext, inEnv := newNamespace(t), newNamespace(t)
	newGate(t, inContext, "freeze", closed)
	newGate(t, inEnv, "freeze", closed)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	withNamespace := strings.Replace(string(kubeconfig), "- context:\n", "- context:\n    namespace: "+inContext+"\n", 1)
	NewWithT(t).Expect(os.WriteFile(config, []byte(withNamespace), 0o600)).To(Succeed())

	for _, tt := range []struct {
		name string
		args []string
		env  []string
		want string
	}{
		{
			name: "it is flux-system by default, regardless of the context",
			want: "gate missing not found in flux-system namespace",
		},
		{
			name: "FLUX_SYSTEM_NAMESPACE changes the default",
			env:  []string{"FLUX_SYSTEM_NAMESPACE=" + inEnv},
			want: "gate missing not found in " + inEnv + " namespace",
		},
		{
			name: "an invalid FLUX_SYSTEM_NAMESPACE is reported and ignored",
			env:  []string{"FLUX_SYSTEM_NAMESPACE=not/valid"},
			want: `ignoring invalid FLUX_SYSTEM_NAMESPACE: "not/valid"` + "\n✗ gate missing not found in flux-system namespace",
		},
		{
			name: "it is the context's on demand of a flag",
			args: []string{"--ns-follows-kube-context"},
			env:  []string{"FLUX_SYSTEM_NAMESPACE=" + inEnv},
			want: "gate missing not found in " + inContext + " namespace",
		},
		{
			name: "it is the context's on demand of the environment",
			env:  []string{"FLUX_NS_FOLLOWS_KUBE_CONTEXT=true"},
			want: "gate missing not found in " + inContext + " namespace",
		},
		{
			name: "--namespace wins over everything",
			args: []string{"--namespace", inEnv, "--ns-follows-kube-context"},
			env:  []string{"FLUX_SYSTEM_NAMESPACE=" + inContext},
			want: "gate missing not found in " + inEnv + " namespace",
		},
		{
			name: "one that is not a DNS label is refused",
			args: []string{"--namespace", "a/b"},
			want: `✗ namespace must be a valid DNS label: "a/b"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			session := start(t, append([]string{"flux-open", "gate", "missing"}, tt.args...), append(tt.env, "KUBECONFIG="+config)...)
			g.Eventually(session).Should(gexec.Exit(1))
			g.Expect(string(session.Err.Contents())).To(ContainSubstring(tt.want))
		})
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	nothing := newNamespace(t)
	few, many := newNamespace(t), newNamespace(t)
	newGate(t, few, "freeze", closed)
	newGate(t, few, "sign-off", closed)
	for i := range 11 {
		newGate(t, many, fmt.Sprintf("gate-%02d", i), closed)
	}

	for _, tt := range []struct {
		name    string
		command string
		want    string
	}{
		{
			name:    "the error for a missing gate names the existing ones",
			command: "flux-open gate missing -n " + few,
			want:    "✗ gate missing not found in " + few + " namespace, which has: freeze, sign-off\n",
		},
		{
			name:    "the error for a missing gate names ten of the existing ones",
			command: "flux-open gate missing -n " + many,
			want: "✗ gate missing not found in " + many + " namespace, which has: gate-00, gate-01, gate-02, gate-03, gate-04, " +
				"gate-05, gate-06, gate-07, gate-08, gate-09, …\n",
		},
		{
			name:    "the error for a missing gate says if there are none",
			command: "flux-open gate missing -n " + nothing,
			want:    "✗ gate missing not found in " + nothing + " namespace, which has no gates\n",
		},
		{
			name:    "the error for a user without the right names the missing right",
			command: "flux-open gate freeze --as nobody -n " + few,
			want: `✗ reading gate freeze failed: gates.gating.toolkit.fluxcd.io "freeze" is forbidden: User "nobody" cannot get ` +
				`resource "gates" in API group "gating.toolkit.fluxcd.io" in the namespace "` + few + "\"\n",
		},
		{
			name:    "a context that does not exist is named",
			command: "flux-open gate freeze --context elsewhere",
			want:    "✗ kubernetes configuration load failed: context \"elsewhere\" does not exist\n",
		},
		{
			name:    "a name is asked for",
			command: "flux-close gate",
			want:    "✗ gate name is required\n",
		},
		{
			name:    "a reason without quotes is not taken for gates",
			command: "flux-open gate freeze --reason release week -n " + few,
			want:    "✗ gate week not found in " + few + " namespace, which has: freeze, sign-off\n",
		},
		{
			name:    "without a noun, the error says what to type",
			command: "flux-close freeze --for 2h",
			want:    "✗ 'flux close' must be followed by gate: flux close gate freeze\n",
		},
		{
			name:    "so it is where the verb is an argument",
			command: "sluice approve app",
			want:    "✗ 'flux approve' must be followed by promotion: flux approve promotion app\n",
		},
		{
			name:    "what gives orders to a terminal is left out",
			command: "flux-close gate missing\x1b[2J\u202e -n " + nothing,
			want:    "✗ gate missing[2J not found in " + nothing + " namespace, which has no gates\n",
		},
		{
			name:    "a flag that does not exist is refused",
			command: "flux-close gate freeze --force",
			want:    "✗ unknown flag: --force\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			session := start(t, strings.Fields(tt.command))
			g.Eventually(session).Should(gexec.Exit(1))
			g.Expect(string(session.Err.Contents())).To(Equal(tt.want))
		})
	}
}

func TestPassGate(t *testing.T) {
	g := NewWithT(t)
	gate := newGate(t, newNamespace(t), "freeze", closed, func(gate *gatingv1.Gate) { gate.Spec.Passes = &gatingv1.Passes{Required: 2} })
	const fix = "main@sha1:2e5d000368cc881c79a6be7e5745eb6ad956ef81"
	passes := func() string {
		t.Helper()
		session := start(t, []string{"flux-gate", "passes", "-n", gate.Namespace, "--no-header"})
		g.Eventually(session).Should(gexec.Exit(0))
		return string(session.Out.Contents())
	}

	session := start(t, []string{"flux-pass", "gate", "freeze", "--revision", fix, "--reason=INC-4711", "--verbose", "-n", gate.Namespace})
	g.Eventually(session).Should(gexec.Exit(0), string(session.Err.Contents()))
	g.Expect(string(session.Err.Contents())).To(And(
		ContainSubstring(`"kind":"GatePass"`),
		ContainSubstring("✔ pass granted by "+user+"\n◎ 1 of 2 people have granted it; another person must run: flux pass gate freeze -n "+gate.Namespace+" --revision "+fix+" --reason TEXT\n"),
		MatchRegexp(`to revoke it: +kubectl -n `+gate.Namespace+` delete gatepass freeze-\w+\n$`)))
	g.Expect(passes()).To(MatchRegexp(`^freeze +main@sha1:2e5d0003 +\S.* +` + user + ` +INC-4711 +1 of 2\n$`))

	var all gatingv1.GatePassList
	g.Expect(kube.List(t.Context(), &all, client.InNamespace(gate.Namespace))).To(Succeed())
	g.Expect(all.Items).To(ConsistOf(HaveField("Spec.GrantedBy", user)))
	bobs := &gatingv1.GatePass{Spec: all.Items[0].Spec}
	bobs.Namespace, bobs.Name, bobs.Spec.GrantedBy = gate.Namespace, "bob", "bob"
	g.Expect(kube.Create(t.Context(), bobs)).To(Succeed())
	g.Expect(passes()).To(MatchRegexp(`(?m)^freeze .* bob +INC-4711 +pending$`))

	// No gate-controller runs in this test, so the test writes its status.
	reread(t, gate)
	gate.Status.ObservedGeneration = gate.Generation
	gate.Status.Passes = gatingv1.PassesInForce(gate, append(all.Items, *bobs), time.Now())
	g.Expect(kube.Status().Update(t.Context(), gate)).To(Succeed())
	g.Expect(passes()).To(MatchRegexp(`(?m)^freeze .* bob +INC-4711 +in force$`))

	refused := start(t, []string{"flux-pass", "gate", "freeze", "--revision", fix, "--reason", strings.Repeat("x", 201), "-n", gate.Namespace})
	g.Eventually(refused).Should(gexec.Exit(1))
	g.Expect(refused.Err).To(gbytes.Say("✗ granting the pass failed: .*spec.reason: Too long"))
}

func TestSaysThatSluiceIsNotInstalled(t *testing.T) {
	g := NewWithT(t)
	env := newEnvironment()
	_, err := env.Start()
	t.Cleanup(func() { NewWithT(t).Expect(env.Stop()).To(Succeed()) })
	g.Expect(err).NotTo(HaveOccurred())
	config := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(config, env.KubeConfig, 0o600)).To(Succeed())

	session := start(t, []string{"flux-open", "gate", "freeze", "--kubeconfig", config})
	g.Eventually(session).Should(gexec.Exit(1))
	g.Expect(string(session.Err.Contents())).To(Equal(
		"✗ the cluster does not serve gating.toolkit.fluxcd.io/v1alpha1: check that Sluice is installed\n"))
}

func TestWaitsForGateController(t *testing.T) {
	g := NewWithT(t)
	gate := newGate(t, newNamespace(t), "freeze")

	session := start(t, []string{"flux-close", "gate", "freeze", "-n", gate.Namespace})
	g.Eventually(session.Err).Should(gbytes.Say("◎ waiting for gate reconciliation\n"))
	g.Expect(session).NotTo(gexec.Exit())

	// No gate-controller runs in this test, so the test writes its status.
	reread(t, gate)
	write := func(status gatingv1.GateStatus) {
		gate.Status, gate.Status.ObservedGeneration = status, gate.Generation
		g.Expect(kube.Status().Update(t.Context(), gate)).To(Succeed())
	}
	write(gatingv1.GateStatus{Sources: 3, Held: 1, Pending: 2})
	g.Consistently(session, "1s").ShouldNot(gexec.Exit(), "two of three have yet to be held")
	write(gatingv1.GateStatus{Sources: 3, Held: 4, HeldPromotions: 1, Pipelines: 1})

	g.Eventually(session).Should(gexec.Exit(0))
	g.Expect(session.Err).To(gbytes.Say(`✔ gate freeze is closed: held 3 of 3 sources, 1 promotion held` + "\n"))

	again := start(t, []string{"flux-close", "gate", "freeze", "-n", gate.Namespace})
	g.Eventually(again).Should(gexec.Exit(0))
	g.Expect(again.Err).To(gbytes.Say(`is already closed: held 3 of 3 sources, 1 promotion held` + "\n"))
}

func TestSaysWhatHasNotFollowedTheGate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		command string
		closed  bool
		status  gatingv1.GateStatus
		want    string
	}{
		{
			name: "sources that could not be held", command: "flux-close",
			status: gatingv1.GateStatus{Sources: 3, Held: 2, Refused: 1},
			want:   "✗ gate freeze is closed, but holding failed for 1 of 3 sources: run 'flux gate get freeze -n NAMESPACE' to list them\n",
		},
		{
			name: "those that take too long", command: "flux-open", closed: true,
			status: gatingv1.GateStatus{Sources: 3, Held: 2, HeldPromotions: 1, Pending: 2},
			want:   "✗ gate freeze is open, but some sources or promotions have not followed yet: released 2 of 3 sources, 1 promotion held; run 'flux gate get freeze -n NAMESPACE' to list them\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			gate := newGate(t, newNamespace(t), "freeze", func(gate *gatingv1.Gate) { gate.Spec.Closed = tt.closed })
			gate.Status, gate.Status.ObservedGeneration = tt.status, gate.Generation+1
			g.Expect(kube.Status().Update(t.Context(), gate)).To(Succeed())

			session := start(t, []string{tt.command, "gate", "freeze", "--timeout=10s", "-n", gate.Namespace})
			g.Eventually(session).Should(gexec.Exit(1))
			g.Expect(string(session.Err.Contents())).To(HaveSuffix(strings.ReplaceAll(tt.want, "NAMESPACE", gate.Namespace)))
		})
	}
}

func TestSaysWhatIsMissingWhenGateControllerDoesNotAnswer(t *testing.T) {
	g := NewWithT(t)
	gate := newGate(t, newNamespace(t), "freeze", closed)

	session := start(t, []string{"flux-open", "gate", "freeze", "-n", gate.Namespace})
	g.Eventually(session.Err).Should(gbytes.Say("◎ waiting for gate reconciliation\n"))
	session.Interrupt()

	g.Eventually(session).Should(gexec.Exit(1))
	g.Expect(session.Err).To(gbytes.Say("✗ gate freeze is open, but gate-controller has not reconciled it yet: check that it is running"))
}

func TestWarnsWhereGitHasTheLastWord(t *testing.T) {
	applied := map[string]string{
		"kustomize.toolkit.fluxcd.io/name":      "apps",
		"kustomize.toolkit.fluxcd.io/namespace": "flux-system",
	}
	for _, tt := range []struct {
		name        string
		labels      map[string]string
		annotations map[string]string
		want        bool
	}{
		{
			name: "a gate that no Kustomization applies is in nobody else's hands",
		},
		{
			name:   "a gate that a Kustomization applies is reverted by it",
			labels: applied,
			want:   true,
		},
		{
			name:        "a gate that Git only creates is left alone afterwards",
			labels:      applied,
			annotations: map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"},
		},
		{
			name:        "a gate that the Kustomization ignores is left alone",
			labels:      applied,
			annotations: map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "ignore"},
		},
		{
			name:        "a gate with reconciliation disabled is left alone",
			labels:      applied,
			annotations: map[string]string{"kustomize.toolkit.fluxcd.io/reconcile": "disabled"},
		},
		{
			name:        "a gate that the Kustomization merges is reverted too",
			labels:      applied,
			annotations: map[string]string{"kustomize.toolkit.fluxcd.io/ssa": "Merge"},
			want:        true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			gate := newGate(t, newNamespace(t), "freeze", func(gate *gatingv1.Gate) {
				gate.Labels, gate.Annotations = tt.labels, tt.annotations
			})

			session := start(t, []string{"flux-close", "gate", "freeze", "--wait=false", "-n", gate.Namespace})
			g.Eventually(session).Should(gexec.Exit(0))
			warning := ContainSubstring("⚠️ Kustomization flux-system/apps applies this gate from Git")
			if !tt.want {
				warning = Not(ContainSubstring("⚠️"))
			}
			g.Expect(string(session.Err.Contents())).To(warning)
		})
	}
}

func TestCompletion(t *testing.T) {
	namespace := newNamespace(t)
	newGate(t, namespace, "freeze", closed)
	newGate(t, namespace, "sign-off")

	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{
			name: "nouns are completed",
			args: []string{"flux-open", "__complete", "ga"},
			want: "gate\tOpen gates\n:4\n",
		},
		{
			name: "the names of gates are completed, with their states",
			args: []string{"flux-open", "__complete", "gate", "-n", namespace, ""},
			want: "freeze\tclosed\nsign-off\topen\n:4\n",
		},
		{
			name: "a name that was begun is completed after flags that were given first",
			args: []string{"flux-close", "__complete", "-n", namespace, "gate", "si"},
			want: "sign-off\topen\n:4\n",
		},
		{
			name: "further names follow a name",
			args: []string{"flux-close", "__complete", "-n", namespace, "gate", "sign-off", ""},
			want: "freeze\tclosed\n:4\n",
		},
		{
			name: "nothing follows the name of a gate that is shown",
			args: []string{"flux-gate", "__complete", "-n", namespace, "get", "sign-off", ""},
			want: ":4\n",
		},
		{
			name: "the formats of the output are completed",
			args: []string{"flux-gate", "__complete", "list", "-o", ""},
			want: "json\nname\nwide\nyaml\n:4\n",
		},
		{
			name: "verbs are completed where they are arguments",
			args: []string{"sluice", "__complete", "o"},
			want: "open\tOpen gates\n:4\n",
		},
		{
			name: "the commands of a verb are completed",
			args: []string{"flux-pipeline", "__complete", ""},
			want: "approve\tApprove a promotion\nclusters\tList the clusters of pipelines\nevents\tList the events of pipelines\nget\tShow a pipeline\ngraph\tDraw a pipeline\nhelp\tHelp about any command\nhistory\tList the promotions of a pipeline\nlist\tList pipelines\n" +
				"markers\tList, check and preview the markers of a checkout\n" +
				"reconcile\tReconcile pipelines now\nresume\tResume suspended pipelines\nsuspend\tSuspend pipelines\nui\tShow pipelines and gates in the browser\n" +
				"wait\tWait until environments run a revision\nwhy\tExplain why an environment does not run the revision\n:4\n",
		},
		{
			name: "the commands about gates are completed",
			args: []string{"flux-gate", "__complete", ""},
			want: "calendar\tDraw when a gate is open and closed\nclose\tClose gates\ncreate\tCreate a gate\nget\tShow a gate, its next changes and what it holds\nhelp\tHelp about any command\nlist\tList gates\nopen\tOpen gates\npasses\tList the passes of gates\nsources\tList sources with their gates\n:4\n",
		},
		{
			name: "the names of gates are also completed for the commands that show them",
			args: []string{"flux-gate", "__complete", "get", "-n", namespace, "f"},
			want: "freeze\tclosed\n:4\n",
		},
		{
			name: "a cluster that can't be asked completes nothing",
			args: []string{"flux-open", "__complete", "--as", "nobody", "gate", ""},
			want: ":1\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := NewWithT(t)
			session := start(t, tt.args)
			g.Eventually(session).Should(gexec.Exit(0))
			g.Expect(string(session.Out.Contents())).To(Equal(tt.want))
		})
	}
}

func TestVersion(t *testing.T) {
	for _, program := range []string{"flux-open", "flux-close", "flux-approve", "flux-pass", "flux-gate", "flux-pipeline", "sluice"} {
		t.Run(program+" prints the version of Sluice", func(t *testing.T) {
			g := NewWithT(t)
			session := start(t, []string{program, "--version"})
			g.Eventually(session).Should(gexec.Exit(0))
			g.Expect(string(session.Out.Contents())).To(Equal("sluice version 0.0.0-dev.0\n"))
		})
	}
}

// start runs the program like flux: by the path of a link named args[0], with its own home and kubeconfig. Variables in
// env take precedence.
func start(t *testing.T, args []string, env ...string) *gexec.Session {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	program, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	link := filepath.Join(dir, args[0])
	g.Expect(os.Symlink(program, link)).To(Succeed())
	config := filepath.Join(dir, "kubeconfig")
	g.Expect(os.WriteFile(config, kubeconfig, 0o600)).To(Succeed())

	command := exec.Command(link, args[1:]...)
	// Without GOCOVERDIR, the program prints a warning to standard error under 'go test -cover'.
	command.Env = append([]string{"HOME=" + dir, "KUBECONFIG=" + config, "GOCOVERDIR=" + t.TempDir()}, env...)
	session, err := gexec.Start(command, nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { <-session.Kill().Exited })
	return session
}

func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	NewWithT(t).Expect(kube.Create(t.Context(), namespace)).To(Succeed())
	return namespace.Name
}

func newGate(t *testing.T, namespace, name string, changes ...func(*gatingv1.Gate)) *gatingv1.Gate {
	t.Helper()
	gate := &gatingv1.Gate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, change := range changes {
		change(gate)
	}
	NewWithT(t).Expect(kube.Create(t.Context(), gate)).To(Succeed())
	return gate
}

func closed(gate *gatingv1.Gate) { gate.Spec.Closed = true }

func reread(t *testing.T, gate *gatingv1.Gate) {
	t.Helper()
	fresh := &gatingv1.Gate{}
	NewWithT(t).Expect(kube.Get(t.Context(), client.ObjectKeyFromObject(gate), fresh)).To(Succeed())
	*gate = *fresh
}
