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

package scm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/sluice-toolkit/sluice/tests/azurehost"
	"github.com/sluice-toolkit/sluice/tests/bitbuckethost"
	"github.com/sluice-toolkit/sluice/tests/githost"
	"github.com/sluice-toolkit/sluice/tests/gitlabhost"
)

// clock is a time that stands still until a test moves it.
type clock struct{ nanoseconds atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(0, c.nanoseconds.Load()) }

func (c *clock) set(to time.Time) { c.nanoseconds.Store(to.UnixNano()) }

// hostsAt returns Hosts whose time is the clock's, which is set to the present.
func hostsAt(c *clock) *Hosts {
	c.set(time.Now())
	hosts := NewHosts(onLoopback)
	hosts.now = c.now
	return hosts
}

// limitedHost is one whose limits a test can meet.
type limitedHost struct {
	testHost
	requests func() int
	// limit has the host refuse everything, or not.
	limit, unlimit func()
}

// newLimited starts a host of each type, all of whose limits last for a minute.
var newLimited = map[string]func(t *testing.T) limitedHost{
	"a secondary limit of GitHub": func(t *testing.T) limitedHost {
		return limitedGitHub(t, githost.SecondaryRateLimit(time.Minute))
	},
	"too many requests to GitHub": func(t *testing.T) limitedHost {
		return limitedGitHub(t, githost.TooManyRequests(time.Minute))
	},
	"a limit of GitLab": func(t *testing.T) limitedHost {
		h := newTestGitLab(t)
		return limitedHost{h.testHost, h.server.Requests, func() { h.server.Refuse(gitlabhost.RateLimited(time.Minute)) }, func() { h.server.Refuse(nil) }}
	},
	"a limit of Bitbucket": func(t *testing.T) limitedHost {
		h := newTestBitbucket(t)
		return limitedHost{h.testHost, h.server.Requests, func() { h.server.Refuse(bitbuckethost.RateLimited(time.Minute)) }, func() { h.server.Refuse(nil) }}
	},
	"a limit of Azure DevOps": func(t *testing.T) limitedHost {
		h := newTestAzure(t)
		return limitedHost{h.testHost, h.server.Requests, func() { h.server.Refuse(azurehost.RateLimited(time.Minute)) }, func() { h.server.Refuse(nil) }}
	},
	"a wish of Azure DevOps to slow down": func(t *testing.T) limitedHost {
		h := newTestAzure(t)
		return limitedHost{h.testHost, h.server.Requests, func() { h.server.Refuse(azurehost.SlowedDown(time.Minute)) }, func() { h.server.Refuse(nil) }}
	},
	"a limit in front of Gitea": func(t *testing.T) limitedHost {
		var requests atomic.Int64
		var refuse atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			if refuse.Load() {
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			_, _ = w.Write([]byte("[]"))
		}))
		t.Cleanup(server.Close)
		return limitedHost{
			testHost{hostType: "gitea", repository: Repository{URL: server.URL + "/org/fleet", Token: "t0ken"}, elsewhere: server.URL + "/org/other"},
			func() int { return int(requests.Load()) }, func() { refuse.Store(true) }, func() { refuse.Store(false) },
		}
	},
}

func limitedGitHub(t *testing.T, limit githost.Fault) limitedHost {
	h := newTestGitHub(t)
	var rule *githost.Rule
	return limitedHost{
		h.testHost, func() int { return len(h.server.Calls()) },
		func() { rule = h.server.FailNext("", "", githost.Always, limit) }, func() { rule.Remove() },
	}
}

func TestNoRequestIsMadeWhileALimitHolds(t *testing.T) {
	for name, start := range newLimited {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h := start(t)
			var clock clock
			hosts := hostsAt(&clock)
			met := clock.now()
			open := func(change func(*Repository)) Host {
				repository := h.repository
				change(&repository)
				host, err := hosts.Open(h.hostType, repository)
				g.Expect(err).NotTo(HaveOccurred())
				return host
			}
			var everywhere []Host
			for range 10 {
				everywhere = append(everywhere,
					open(func(*Repository) {}),
					open(func(r *Repository) { r.URL = h.elsewhere }),
					open(func(r *Repository) { r.CABundle = append(r.CABundle[:len(r.CABundle):len(r.CABundle)], h.ca()...) }))
			}

			// All at once: the first request meets the limit for all.
			h.limit()
			var wait sync.WaitGroup
			var limited atomic.Int64
			for _, host := range everywhere {
				wait.Go(func() {
					if _, err := host.Find(t.Context(), "b"); isLimited(err) {
						limited.Add(1)
					}
				})
			}
			wait.Wait()
			g.Expect(h.requests()).To(Equal(1))
			g.Expect(limited.Load()).To(BeNumerically(">=", len(everywhere)-1), "the one that met it may have been served")

			for _, at := range []time.Duration{0, time.Second, time.Minute - 1} {
				clock.set(met.Add(at))
				for _, host := range append(everywhere, open(func(*Repository) {})) {
					for operation, call := range operations {
						err := call(t.Context(), host)
						g.Expect(isLimited(err)).To(BeTrue(), "%s after %s: %v", operation, at, err)
						g.Expect(err).NotTo(MatchError(ErrUnauthorized), "a limit is no refusal of the token")
						g.Expect(err).To(MatchError(ContainSubstring("rate limited by the host until " + met.Add(time.Minute).UTC().Format(time.RFC3339))))
					}
				}
			}
			g.Expect(h.requests()).To(Equal(1), "not one request is made before the limit ends")

			h.unlimit()
			clock.set(met.Add(time.Minute))
			g.Expect(everywhere[0].Find(t.Context(), "b")).To(BeEmpty())
			g.Expect(h.requests()).To(Equal(2))
		})
	}
}

// ca returns something that can follow the repository's authorities and changes nothing.
func (h limitedHost) ca() []byte {
	if len(h.repository.CABundle) == 0 {
		return nil
	}
	return []byte("\n")
}

func isLimited(err error) bool {
	var limited *RateLimitedError
	return errors.As(err, &limited)
}

func TestALimitIsTheCredentialsOwn(t *testing.T) {
	g := NewWithT(t)
	h := newTestGitHub(t)
	h.server.AddToken(githost.Token{Value: "other-t0ken", Login: "other"})
	var clock clock
	hosts := hostsAt(&clock)
	open := func(token Token) Host {
		host, err := hosts.Open("github", Repository{URL: h.repository.URL, Token: token, CABundle: h.repository.CABundle})
		g.Expect(err).NotTo(HaveOccurred())
		return host
	}
	h.server.FailNext("", "", 1, githost.SecondaryRateLimit(time.Minute))
	_, err := open(gitHubToken).Find(t.Context(), "b")
	g.Expect(isLimited(err)).To(BeTrue())
	g.Expect(open("other-t0ken").Find(t.Context(), "b")).To(BeEmpty())
	_, err = open(gitHubToken).Find(t.Context(), "b")
	g.Expect(isLimited(err)).To(BeTrue())
}

func TestAPrimaryLimitHoldsUntilItIsReset(t *testing.T) {
	for _, c := range []struct {
		name  string
		left  int
		first bool
	}{
		{name: "one that is met", left: 0, first: true},
		{name: "one that the last request used up", left: 1, first: false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			h := newTestGitHub(t)
			var clock clock
			hosts := hostsAt(&clock)
			open := func() Host {
				host, err := hosts.Open(h.hostType, h.repository)
				g.Expect(err).NotTo(HaveOccurred())
				return host
			}
			reset := clock.now().Add(30 * time.Minute).Truncate(time.Second)
			h.server.SetRateLimit(gitHubToken, c.left, reset)
			_, err := open().Find(t.Context(), "b")
			g.Expect(isLimited(err)).To(Equal(c.first), "%v", err)

			clock.set(reset.Add(-1))
			for operation, call := range operations {
				err := call(t.Context(), open())
				var limited *RateLimitedError
				g.Expect(errors.As(err, &limited)).To(BeTrue(), "%s: %v", operation, err)
				g.Expect(limited.Until).To(BeTemporally("==", reset))
			}
			g.Expect(h.server.Calls()).To(HaveLen(1))

			h.server.SetRateLimit(gitHubToken, 10, reset.Add(time.Hour))
			clock.set(reset)
			g.Expect(open().Find(t.Context(), "b")).To(BeEmpty())
		})
	}
}

func TestALimitIsNotForgottenWithWhatIsIdle(t *testing.T) {
	g := NewWithT(t)
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Retry-After", fmt.Sprint(int((3 * idleAfter).Seconds())))
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	var clock clock
	hosts := hostsAt(&clock)
	began := clock.now()
	find := func() error {
		host, err := hosts.Open("gitea", Repository{URL: server.URL + "/org/fleet", Token: "t0ken"})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = host.Find(t.Context(), "b")
		return err
	}
	sweep := func() {
		_, err := hosts.Open("gitea", Repository{URL: "https://example.com/org/fleet", Token: "other"})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(isLimited(find())).To(BeTrue())
	clock.set(began.Add(2 * idleAfter))
	sweep()
	g.Expect(isLimited(find())).To(BeTrue())
	g.Expect(requests).To(Equal(1))
	g.Expect(hosts.clients).To(HaveLen(2))
	g.Expect(hosts.budgets).To(HaveLen(2))

	clock.set(began.Add(4 * idleAfter))
	sweep()
	g.Expect(hosts.clients).To(HaveLen(1), "what nobody uses is forgotten")
	g.Expect(hosts.budgets).To(HaveLen(1))
}

func TestAWaitForTheTurnEnds(t *testing.T) {
	g := NewWithT(t)
	arrived, leave := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-leave
		_, _ = w.Write([]byte("[]"))
	}))
	t.Cleanup(server.Close)
	hosts := NewHosts(onLoopback)
	find := func(ctx context.Context) error {
		host, err := hosts.Open("gitea", Repository{URL: server.URL + "/org/fleet", Token: "t0ken"})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = host.Find(ctx, "b")
		return err
	}
	first := make(chan error)
	go func() { first <- find(t.Context()) }()
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(find(ctx)).To(MatchError(context.Canceled))
	for _, shared := range hosts.budgets {
		shared.patience = 0
	}
	g.Expect(find(t.Context())).To(MatchError(ContainSubstring("slow to respond to other requests")))
	close(leave)
	g.Expect(<-first).To(Succeed())
}

func TestWhatHasNotChangedIsNotSentAgain(t *testing.T) {
	for _, standIn := range standIns {
		t.Run(standIn.hostType, func(t *testing.T) {
			g := NewWithT(t)
			var statuses []int
			tag := `W/"1"`
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status := http.StatusOK
				if r.Header.Get("If-None-Match") == tag {
					status = http.StatusNotModified
				}
				statuses = append(statuses, status)
				w.Header().Set("ETag", tag)
				w.WriteHeader(status)
				if status == http.StatusOK {
					_, _ = w.Write([]byte(standIn.empty))
				}
			}))
			t.Cleanup(server.Close)
			hosts := NewHosts(onLoopback)
			find := func(token Token) {
				host, err := hosts.Open(standIn.hostType, Repository{URL: server.URL + standIn.path, Token: token})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(host.Find(t.Context(), "b")).To(BeEmpty())
			}
			find("t0ken")
			find("t0ken")
			find("t0ken")
			g.Expect(statuses).To(Equal([]int{200, 304, 304}))
			find("other")
			g.Expect(statuses).To(Equal([]int{200, 304, 304, 200}), "what one credential may see is nothing to another")
			tag = `W/"2"`
			find("t0ken")
			find("t0ken")
			g.Expect(statuses).To(Equal([]int{200, 304, 304, 200, 200, 304}))
		})
	}
}

func TestLookingAtWhatHasNotChangedCostsNothingOnGitHub(t *testing.T) {
	g := NewWithT(t)
	h := newTestGitHub(t)
	hosts := NewHosts(onLoopback)
	open := func() Host {
		host, err := hosts.Open(h.hostType, h.repository)
		g.Expect(err).NotTo(HaveOccurred())
		return host
	}
	h.commit("promote/app")
	created, err := open().Create(t.Context(), NewPullRequest{Title: "t", Branch: "promote/app", Base: "main"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(open().Get(t.Context(), created.Number)).To(Equal(created))
	left := h.server.RateLimitRemaining(gitHubToken)
	for range 10 {
		g.Expect(open().Get(t.Context(), created.Number)).To(Equal(created))
	}
	g.Expect(h.server.RateLimitRemaining(gitHubToken)).To(Equal(left))
	h.merge(created.Number)
	merged, err := open().Get(t.Context(), created.Number)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(merged.State).To(Equal(StateMerged))
}
