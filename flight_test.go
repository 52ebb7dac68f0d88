// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// leaving is a context that ends when it has been looked at for the last time
// before an exec: the lookup leaves what it has only just begun.
type leaving struct {
	context.Context
	cancel context.CancelFunc
	armed  atomic.Bool
}

func (l *leaving) Err() error {
	err := l.Context.Err()
	if l.armed.Load() {
		l.cancel()
	}
	return err
}

// podNames notes for which pods tokens were requested.
type podNames struct {
	accounts
	arm func()
	mu  sync.Mutex
	got map[string]int
}

func (p *podNames) GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error) {
	p.arm()
	return p.accounts.GetServiceAccount(ctx, namespace, name)
}

func (p *podNames) RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	p.mu.Lock()
	p.got[req.PodName+" "+req.PodUID+" "+req.ServiceAccount]++
	p.mu.Unlock()
	return p.accounts.RequestToken(ctx, req)
}

// TestPodIsCopied: the caller may use its Pod for something else when Lookup
// has returned, though a token is still to be requested for it. The race
// detector has a word in this.
func TestPodIsCopied(t *testing.T) {
	api := &podNames{got: map[string]int{}}
	s := plugin.ProviderFunc(respond(plugin.CacheImage, 0, ""))
	k, err := New(oneProvider(perAccount(config.CachePerServiceAccount)), Options{InProcess: map[string]plugin.Provider{"p": s}, ServiceAccounts: api})
	if err != nil {
		t.Fatal(err)
	}
	pod := podRequest("", "alice", 1).Pod
	for i := range 200 {
		*pod = Pod{Namespace: "ns", Name: "pod-1", UID: "pod-uid-1", ServiceAccount: "alice"}
		ctx := &leaving{}
		ctx.Context, ctx.cancel = context.WithCancel(t.Context())
		api.arm = func() { ctx.armed.Store(true) }
		k.Lookup(ctx, Request{Image: fmt.Sprintf("r.example/app-%d", i), Pod: pod})
		*pod = Pod{Namespace: "ns", Name: "other", UID: "other", ServiceAccount: "bob"}
	}
	k.Close()
	api.mu.Lock()
	defer api.mu.Unlock()
	if len(api.got) != 1 || api.got["pod-1 pod-uid-1 alice"] == 0 {
		t.Errorf("tokens were requested for %v, want for pod-1 alone", api.got)
	}
}

// traceKey is that of a context's value, as of a trace.
type traceKey struct{}

// traced notes the traces that code of others sees.
type traced struct {
	accounts
	mu  sync.Mutex
	saw map[string]string
}

func (tr *traced) note(ctx context.Context, where string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.saw[where] = fmt.Sprint(ctx.Value(traceKey{}))
}

func (tr *traced) GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error) {
	tr.note(ctx, "service account")
	return tr.accounts.GetServiceAccount(ctx, namespace, name)
}

func (tr *traced) RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	tr.note(ctx, "token")
	return tr.accounts.RequestToken(ctx, req)
}

func (tr *traced) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	tr.note(ctx, "provider")
	<-time.After(time.Second)
	tr.note(ctx, fmt.Sprintf("provider at its end, %v", ctx.Err()))
	return respond(plugin.CacheRegistry, time.Hour, "")(ctx, req)
}

// TestValuesOfTheContext reach whatever works for a lookup, also when its
// caller has left, and do not bring the caller's deadline along.
func TestValuesOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &traced{saw: map[string]string{}}
		k, err := New(oneProvider(perAccount(config.CachePerServiceAccount)), Options{InProcess: map[string]plugin.Provider{"p": tr}, ServiceAccounts: tr})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), traceKey{}, "leader"), time.Second/2)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { k.Lookup(ctx, podRequest("r.example/a", "alice", 1)) })
		synctest.Wait()
		if res, err := k.Lookup(t.Context(), podRequest("r.example/b", "alice", 2)); err != nil || len(res.Credentials) != 1 {
			t.Errorf("the waiter: %v", err)
		}
		wg.Wait()
		for _, where := range []string{"token", "provider", "provider at its end, <nil>"} {
			if tr.saw[where] != "leader" {
				t.Errorf("%s saw the trace %q, want that of the leader", where, tr.saw[where])
			}
		}
	})
}
