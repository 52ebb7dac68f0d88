// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/testkube"
	"github.com/regcred/regcred/kube"
)

// beginWatch watches until the bubble's test ends.
func beginWatch(t *testing.T, c *kube.Client) (errs <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ch := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ch <- c.Watch(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return ch
}

// wantUID checks what is known of a service account.
func wantUID(t *testing.T, c *kube.Client, name, want string) {
	t.Helper()
	got := ""
	if a, err := c.GetServiceAccount(t.Context(), "ci", name); err == nil {
		got = a.UID
	}
	if got != want {
		t.Errorf("%s has the UID %q, want %q", name, got, want)
	}
}

func add(api *testkube.Server, name, uid string) {
	api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: name, UID: uid, PullSecrets: []string{"s-" + uid}})
	synctest.Wait()
}

// TestWatch: while it lasts, nothing is asked for, and every change is known at once.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		for i := range 250 { // three pages
			add(api, fmt.Sprint("n", i), fmt.Sprint("u", i))
		}
		c := connect(t, api, testkube.Admin, kube.Options{})
		beginWatch(t, c)
		for i := range 250 {
			wantUID(t, c, fmt.Sprint("n", i), fmt.Sprint("u", i))
		}
		wantCalls(t, api, "list", "serviceaccounts", 3)
		add(api, "n1", "renewed")
		add(api, "n300", "new")
		wantUID(t, c, "n1", "renewed")
		wantUID(t, c, "n300", "new")
		if secrets, err := c.AccountPullSecrets(t.Context(), "ci", "n300"); err != nil || len(secrets) != 1 || secrets[0] != "s-new" {
			t.Errorf("pull secrets %q, error %v", secrets, err)
		}
		api.AddServiceAccount(testkube.ServiceAccount{Namespace: "ci", Name: "n3", Annotations: map[string]string{"a": "b"}})
		synctest.Wait()
		if a, err := c.GetServiceAccount(t.Context(), "ci", "n3"); err != nil || a.UID != "u3" || a.Annotations["a"] != "b" {
			t.Errorf("annotated anew: got %v, error %v", a, err)
		}
		time.Sleep(time.Minute)
		wantUID(t, c, "n2", "u2")
		wantCalls(t, api, "get", "", 0)

		api.Delete("serviceaccounts", "ci", "n2")
		synctest.Wait()
		_, err := c.GetServiceAccount(t.Context(), "ci", "n2") // is asked for, since it may just have been made
		wantError(t, err, "404 Not Found")
		wantCalls(t, api, "get", "serviceaccounts", 1)
		if err := c.Watch(t.Context()); err == nil || !strings.Contains(err.Error(), "already watching") {
			t.Errorf("a second watch: error %v", err)
		}
	})
}

// TestWatchResumes: a watch that ended goes on from where it was; what changed
// in between is known, and what it held serves in the meantime.
func TestWatchResumes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		end   func(*testkube.Server)
		lists int
	}{
		{"ended by the server", (*testkube.Server).EndWatches, 1},
		{"connection lost", func(s *testkube.Server) {
			s.Stop()
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"versions forgotten", func(s *testkube.Server) { s.Compact(); s.EndWatches() }, 2},
		{"410 to the request", func(s *testkube.Server) {
			s.Inject(testkube.Fault{Kind: testkube.Gone, Verb: "watch"})
			s.EndWatches()
		}, 2},
		{"an event that is cut off", func(s *testkube.Server) {
			s.Inject(testkube.Fault{Kind: testkube.Cut, Verb: "watch"})
			s.EndWatches()
		}, 1},
		{"an event that is none", func(s *testkube.Server) {
			s.Inject(testkube.Fault{Kind: testkube.BadJSON, Verb: "watch"})
			s.EndWatches()
		}, 1},
		{"a page instead", func(s *testkube.Server) {
			s.Inject(testkube.Fault{Kind: testkube.Garbage, Verb: "watch"})
			s.EndWatches()
		}, 1},
		{"an event without end", func(s *testkube.Server) {
			s.Inject(testkube.Fault{Kind: testkube.Huge, Verb: "watch"})
			s.EndWatches()
		}, 1},
		{"500", func(s *testkube.Server) {
			s.Inject(testkube.Fault{Kind: testkube.ServerError, Verb: "watch"})
			s.EndWatches()
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := startPipe(t)
				add(api, "old", "1")
				add(api, "gone", "2")
				c := connect(t, api, testkube.Admin, kube.Options{})
				beginWatch(t, c)
				add(api, "later", "3")
				time.Sleep(time.Minute)
				tt.end(api)
				add(api, "old", "4")
				api.Delete("serviceaccounts", "ci", "gone")
				synctest.Wait()
				wantUID(t, c, "later", "3")
				wantCalls(t, api, "get", "", 0)
				time.Sleep(9 * time.Second) // in which it is tried again
				synctest.Wait()
				time.Sleep(time.Minute)
				wantUID(t, c, "old", "4")
				wantUID(t, c, "later", "3")
				wantCalls(t, api, "get", "", 0)
				wantUID(t, c, "gone", "")
				wantCalls(t, api, "list", "", tt.lists)
			})
		})
	}
}

// TestWatchBookmark: a bookmark moves on the version, so that a watch that
// resumes need not list.
func TestWatchBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		add(api, "old", "1")
		c := connect(t, api, testkube.Admin, kube.Options{})
		beginWatch(t, c)
		api.Compact()
		api.Bookmark()
		synctest.Wait()
		api.EndWatches()
		time.Sleep(time.Minute)
		wantUID(t, c, "old", "1")
		wantCalls(t, api, "list", "", 1)
		wantCalls(t, api, "watch", "", 2)
	})
}

// TestWatchLost: while there is no watch, service accounts are read as
// without one, and what it held serves for an hour while nobody answers.
func TestWatchLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		add(api, "old", "1")
		c := connect(t, api, testkube.Admin, kube.Options{})
		beginWatch(t, c)
		time.Sleep(2 * time.Hour)
		wantUID(t, c, "old", "1")
		api.Inject(testkube.Fault{Kind: testkube.ServerError, Verb: "watch", Times: testkube.Forever})
		down := api.Inject(testkube.Fault{Kind: testkube.ServerError, Verb: "get", Times: testkube.Forever})
		api.EndWatches()
		add(api, "old", "2")
		wantUID(t, c, "old", "1")
		wantCalls(t, api, "get", "", 0)
		time.Sleep(59 * time.Minute)
		for range 10 {
			wantUID(t, c, "old", "1")
		}
		wantCalls(t, api, "get", "", 1)
		time.Sleep(time.Minute)
		wantUID(t, c, "old", "")
		down.Remove()
		wantUID(t, c, "old", "2")
	})
}

// TestWatchLostAnswer: what a watch held does not serve against an answer, nor
// after it.
func TestWatchLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		add(api, "old", "1")
		c := connect(t, api, testkube.Admin, kube.Options{})
		beginWatch(t, c)
		api.Inject(testkube.Fault{Kind: testkube.ServerError, Verb: "watch", Times: testkube.Forever})
		api.EndWatches()
		api.Delete("serviceaccounts", "ci", "old")
		time.Sleep(10 * time.Second)
		wantUID(t, c, "old", "")
		api.Stop()
		wantUID(t, c, "old", "")
	})
}

// TestWatchDeleted: what was read before the watch and is deleted under it does
// not come back when there is no API server.
func TestWatchDeleted(t *testing.T) {
	for _, tt := range []struct {
		name        string
		before, now bool // when it is deleted
	}{{"before it", true, false}, {"under it", false, true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := startPipe(t)
				add(api, "old", "1")
				c := connect(t, api, testkube.Admin, kube.Options{})
				wantUID(t, c, "old", "1")
				time.Sleep(time.Second)
				if tt.before {
					api.Delete("serviceaccounts", "ci", "old")
				}
				beginWatch(t, c)
				if tt.now {
					api.Delete("serviceaccounts", "ci", "old")
					synctest.Wait()
				}
				api.Stop()
				time.Sleep(time.Minute)
				wantUID(t, c, "old", "")
			})
		})
	}
}

// TestWatchPauses: half a minute at most, and half of it at least, lies
// between two attempts in the long run; it begins anew after a good one.
func TestWatchPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		c := connect(t, api, testkube.Admin, kube.Options{})
		fault := api.Inject(testkube.Fault{Kind: testkube.ServerError, Verb: "list", Times: testkube.Forever})
		beginWatch(t, c)
		time.Sleep(time.Minute)
		if n := fault.Hits(); n < 5 || n > 9 {
			t.Errorf("%d attempts in the first minute", n)
		}
		early := fault.Hits()
		time.Sleep(time.Hour)
		if n := fault.Hits() - early; n < 120-2 || n > 240+2 {
			t.Errorf("%d attempts in an hour", n)
		}
		fault.Remove()
		time.Sleep(2 * time.Minute)
		watches := api.Calls("watch", "")
		api.EndWatches()
		time.Sleep(time.Second)
		wantCalls(t, api, "watch", "", watches+1)

		// 410 takes no longer than that, however long it has not worked.
		api.Inject(testkube.Fault{Kind: testkube.ServerError, Verb: "watch", Times: 6})
		api.Inject(testkube.Fault{Kind: testkube.Gone, Verb: "watch"})
		lists := api.Calls("list", "")
		api.EndWatches()
		for range 300 {
			time.Sleep(time.Second)
			if api.Calls("watch", "") == watches+1+7 {
				break
			}
		}
		time.Sleep(time.Second)
		wantCalls(t, api, "list", "", lists+1)
	})
}

// TestWatchForbidden: who may not watch is told so at once, and reads.
func TestWatchForbidden(t *testing.T) {
	for _, tt := range []struct {
		name, verb, user string
		fault            testkube.FaultKind
		says             string
	}{
		{"node", "", node, 0, "list serviceaccounts: http://testkube returned 403 Forbidden: serviceaccounts is forbidden: User \"system:node:node-1\" cannot list resource"},
		{"list", "list", testkube.Admin, testkube.Forbidden, `the client needs the verb "list" on the resource "serviceaccounts" in all namespaces`},
		{"watch", "watch", testkube.Admin, testkube.Forbidden, `the client needs the verb "watch" on the resource "serviceaccounts" in all namespaces`},
		{"nobody", "list", testkube.Admin, testkube.Unauthorized, "401 Unauthorized"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := startPipe(t)
				populate(api)
				if tt.verb != "" {
					api.Inject(testkube.Fault{Kind: tt.fault, Verb: tt.verb})
				}
				c := connect(t, api, tt.user, kube.Options{})
				begun := time.Now()
				err := c.Watch(t.Context())
				wantError(t, err, tt.says)
				if time.Since(begun) > 0 {
					t.Errorf("it took %v", time.Since(begun))
				}
				time.Sleep(time.Minute)
				mustGet(t, c)
				wantCalls(t, api, "get", "serviceaccounts", 1)
			})
		})
	}
}

// TestWatchDownAtStart: the watch begins when the API server does.
func TestWatchDownAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		add(api, "old", "1")
		c := connect(t, api, testkube.Admin, kube.Options{})
		api.Stop()
		errs := beginWatch(t, c)
		time.Sleep(10 * time.Minute)
		if err := api.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		wantUID(t, c, "old", "1")
		wantCalls(t, api, "get", "", 0)
		select {
		case err := <-errs:
			t.Errorf("it has ended: %v", err)
		default:
		}
	})
}

// TestWatchHangs: an API server that accepts a watch and says nothing is left
// after the call's time.
func TestWatchHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		add(api, "old", "1")
		api.Inject(testkube.Fault{Kind: testkube.Hang, Verb: "watch"})
		c := connect(t, api, testkube.Admin, kube.Options{})
		beginWatch(t, c)
		wantUID(t, c, "old", "1") // as it was listed
		time.Sleep(12 * time.Second)
		wantCalls(t, api, "watch", "", 2)
		wantUID(t, c, "old", "1")
		wantCalls(t, api, "get", "", 0)
	})
}

// TestWatchLong: one event is bounded, and not all of them together.
func TestWatchLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := startPipe(t)
		c := connect(t, api, testkube.Admin, kube.Options{})
		beginWatch(t, c)
		for i := range 20 { // 5 MiB
			api.AddServiceAccount(testkube.ServiceAccount{
				Namespace: "ci", Name: fmt.Sprint("n", i), UID: "u", Annotations: map[string]string{"a": strings.Repeat("x", 256<<10-1)},
			})
		}
		synctest.Wait()
		wantUID(t, c, "n19", "u")
		time.Sleep(time.Minute)
		wantCalls(t, api, "watch", "", 1)
		wantCalls(t, api, "get", "", 0)
	})
}

// TestWatchEndless: an event that is too long is not read to its end.
func TestWatchEndless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		api := startPipe(t)
		api.Inject(testkube.Fault{Kind: testkube.Huge, Verb: "watch", Bytes: 5 << 20})
		beginWatch(t, connect(t, api, testkube.Admin, kube.Options{Logger: log.logger()}))
		if got := log.count("an event is too long"); got != 1 {
			t.Errorf("the log says %d times that an event is too long, want once", got)
		}
	})
}

// TestWatchEnds: with its context, and without an error.
func TestWatchEnds(t *testing.T) {
	api := start(t, testkube.Options{})
	c := connect(t, api, testkube.Admin, kube.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // it may begin again
		if err := c.Watch(ctx); err != nil {
			t.Error(err)
		}
	}
}
