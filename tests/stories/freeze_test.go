//go:build e2e_node

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

package stories

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	gatingv1 "github.com/sluice-toolkit/sluice/api/gating/v1alpha1"
)

const (
	weekend   = "weekend-freeze"
	otherGate = "other"
	reason    = "weekend, until Monday 07:00"

	closing = "close-" + weekend
	opening = "open-" + weekend

	account = "system:serviceaccount:" + flux + ":" + weekend

	// frozen is the namespace of the application that the gate holds, and the name of its source and of its repository.
	frozen = "frozen"
)

var _ = Describe("A freeze schedule", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		install(ctx, thisVersion)
		apply(ctx, `
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: %s, namespace: flux-system}
spec: {closed: false}
---
apiVersion: gating.toolkit.fluxcd.io/v1alpha1
kind: Gate
metadata: {name: %s, namespace: flux-system}
spec: {closed: false}
`, weekend, otherGate)
		upon.commit(frozen, map[string]string{"deploy/app.yaml": application("v1.0.0")})
		deploy(ctx, frozen, frozen)
		DeferCleanup(func(ctx SpecContext) {
			remove(ctx, "gates", weekend, otherGate)
			undeploy(ctx, frozen)
		})
		Eventually(ctx, runs(frozen)).Should(Equal("v1.0.0"))
		gated(ctx, frozen, weekend)
	})

	for _, sample := range []string{"freeze-schedule", "freeze-schedule-kubectl"} {
		Describe("as config/samples/"+sample+" has it", Ordered, func() {
			// Jobs stay until their CronJob's deletion has come round to them: the next sample must not take their
			// names.
			named := func(name string) string { return sample + "-" + name }

			BeforeAll(func(ctx SpecContext) { applySample(ctx, sample) })

			It("closes the gate, and opens it again", func(ctx SpecContext) {
				Expect(runNow(ctx, closing, named("close"))).To(Equal(batchv1.JobComplete))
				Expect(gateNamed(ctx, weekend)).To(beClosedFor(reason))
				Eventually(ctx, held(frozen)).Should(BeTrue())
				before, err := runs(frozen)(ctx)
				Expect(err).NotTo(HaveOccurred())

				By("releasing a new version, which must not be published")
				next := "released-while-closed-by-" + sample
				upon.commit(frozen, map[string]string{"deploy/app.yaml": application(next)})
				Consistently(ctx, runs(frozen)).Should(Equal(before))

				By("changing what runs by hand, which Flux corrects")
				kubectl(ctx, "--namespace="+frozen, "patch", "configmap/app", "--type=merge", `--patch={"data":{"version":"changed by hand"}}`)
				Eventually(ctx, runs(frozen)).Should(Equal(before))
				Expect(held(frozen)(ctx)).To(BeTrue())

				By("opening it")
				Expect(runNow(ctx, opening, named("open"))).To(Equal(batchv1.JobComplete))
				Expect(gateNamed(ctx, weekend)).To(beOpen())
				Eventually(ctx, runs(frozen)).Should(Equal(next))

				Eventually(func() string { return kubectl(ctx, "events", "--for=gitrepository/"+frozen) }).Should(And(
					MatchRegexp(`held: gate %s is closed( by \S+)? \(%s\)`, weekend, reason), ContainSubstring("released: gate %s is open", weekend)))
				Expect(kubectl(ctx, "logs", "deployment/gate-controller")).NotTo(ContainSubstring("unable to record event"))
			})

			It("does not change a gate that someone has opened before", func(ctx SpecContext) {
				before := gateNamed(ctx, weekend)
				Expect(before).To(beOpen())
				Expect(runNow(ctx, opening, named("open-again"))).To(Equal(batchv1.JobComplete))
				Expect(gateNamed(ctx, weekend).Generation).To(Equal(before.Generation))
			})

			It("may not turn another gate", func(ctx SpecContext) {
				job := jobOf(cronJob(ctx, closing), named("close-other"))
				args := job.Spec.Template.Spec.Containers[0].Args
				Expect(args).To(ContainElement(weekend))
				args[slices.Index(args, weekend)] = otherGate
				job.Spec.BackoffLimit = new(int32(0))
				Expect(admin.Create(ctx, job)).To(Succeed())

				Expect(end(ctx, job.Name)).To(Equal(batchv1.JobFailed))
				Expect(kubectl(ctx, "logs", "job/"+job.Name)).To(
					ContainSubstring("gates.gating.toolkit.fluxcd.io %q is forbidden: User %q", otherGate, account))
				Expect(gateNamed(ctx, otherGate)).To(beOpen())
			})
		})
	}

	Describe("that is applied", Ordered, func() {
		BeforeAll(func(ctx SpecContext) { applySample(ctx, "freeze-schedule") })

		It("closes and opens the gate at the scheduled times", func(ctx SpecContext) {
			fire(ctx, closing, beClosedFor(reason))
			Eventually(ctx, held(frozen)).Should(BeTrue())
			fire(ctx, opening, beOpen())
			Eventually(ctx, held(frozen)).Should(BeFalse())
		})

		DescribeTable("has rights to that gate only",
			func(ctx SpecContext, verb string, of authorizationv1.ResourceAttributes, allowed bool) {
				of.Verb = verb
				if of.Namespace == "" {
					of.Namespace = flux
				}
				review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: account, ResourceAttributes: &of}}
				Expect(admin.Create(ctx, review)).To(Succeed())
				Expect(review.Status.Allowed).To(Equal(allowed), review.Status.Reason)
			},
			Entry("it may read the gate", "get", gates(weekend), true),
			Entry("it may turn the gate", "patch", gates(weekend), true),
			Entry("it may not replace the gate", "update", gates(weekend), false),
			Entry("it may not delete the gate", "delete", gates(weekend), false),
			Entry("it may not make gates", "create", gates(""), false),
			Entry("it may not read another gate", "get", gates(otherGate), false),
			Entry("it may not turn another gate", "patch", gates(otherGate), false),
			Entry("it may not list gates", "list", gates(""), false),
			Entry("it may not turn a gate of the same name elsewhere", "patch",
				authorizationv1.ResourceAttributes{Group: gatingv1.GroupVersion.Group, Resource: "gates", Name: weekend, Namespace: "default"}, false),
			Entry("it may not read Secrets", "get", authorizationv1.ResourceAttributes{Resource: "secrets", Name: "sluice-signer"}, false),
			Entry("it may not resume the source", "patch",
				authorizationv1.ResourceAttributes{Group: "source.toolkit.fluxcd.io", Resource: "gitrepositories", Name: frozen}, false),
		)
	})
})

func gates(name string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Group: gatingv1.GroupVersion.Group, Resource: "gates", Name: name}
}

// applySample applies one of the release's samples, for as long as the container or spec runs.
func applySample(ctx context.Context, sample string) {
	GinkgoHelper()
	dir := filepath.Join(releaseDir(thisVersion, "manifests"), "samples", sample)
	kubectl(ctx, "apply", "--kustomize", dir)
	DeferCleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "--kustomize", dir) })
}

// runNow runs what a CronJob would, at once, and returns how it ended.
func runNow(ctx context.Context, schedule, name string) batchv1.JobConditionType {
	GinkgoHelper()
	kubectl(ctx, "create", "job", name, "--from=cronjob/"+schedule)
	return end(ctx, name)
}

// end waits for a Job to end and returns how it did.
func end(ctx context.Context, name string) batchv1.JobConditionType {
	GinkgoHelper()
	var how batchv1.JobConditionType
	Eventually(ctx, func(ctx context.Context) (batchv1.JobConditionType, error) {
		job := &batchv1.Job{}
		if err := admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: name}, job); err != nil {
			return "", err
		}
		for _, condition := range job.Status.Conditions {
			ended := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
			if ended && condition.Status == corev1.ConditionTrue {
				how = condition.Type
			}
		}
		return how, nil
	}).ShouldNot(BeEmpty())
	return how
}

// fire creates a copy of a CronJob that is due at the next full minute, and waits until its Job has turned the gate.
func fire(ctx context.Context, schedule string, turned OmegaMatcher) {
	GinkgoHelper()
	each := cronJob(ctx, schedule)
	each.ObjectMeta = metav1.ObjectMeta{Namespace: flux, Name: schedule + "-each-minute"}
	each.Spec.Schedule = "* * * * *"
	Expect(admin.Create(ctx, each)).To(Succeed())
	Eventually(ctx, func(ctx context.Context) (*gatingv1.Gate, error) {
		found := &gatingv1.Gate{}
		return found, admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: weekend}, found)
	}).WithTimeout(2 * time.Minute).Should(turned) // up to one until it is due, and what the pod takes on a busy machine
	// Well before the minute after that.
	Expect(admin.Delete(ctx, each, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
}

func cronJob(ctx context.Context, name string) *batchv1.CronJob {
	GinkgoHelper()
	found := &batchv1.CronJob{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: flux, Name: name}, found)).To(Succeed())
	return found
}

// jobOf is a Job as the CronJob would make it.
func jobOf(cronJob *batchv1.CronJob, name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: flux, Name: name}, Spec: cronJob.Spec.JobTemplate.Spec}
}
