// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
)

// misbehavingClient implements all interfaces for third-party code. One of its methods misbehaves.
type misbehavingClient struct {
	staticAccounts
	method   string // the name of the method that misbehaves
	behave   func()
	provider recordingProvider
}

func (o *misbehavingClient) callHook(name string) {
	if name == o.method {
		o.behave()
	}
}

func (o *misbehavingClient) GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error) {
	o.callHook("GetServiceAccount")
	return o.staticAccounts.GetServiceAccount(ctx, namespace, name)
}

func (o *misbehavingClient) RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	o.callHook("RequestToken")
	return o.staticAccounts.RequestToken(ctx, req)
}

func (o *misbehavingClient) Name() string { return "outsider" }

func (o *misbehavingClient) Auths(context.Context, string) ([]AuthSet, error) {
	o.callHook("Auths")
	return nil, nil
}

func (o *misbehavingClient) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	o.callHook("GetCredentials")
	return o.provider.GetCredentials(ctx, req)
}

func (o *misbehavingClient) newKeyring(t *testing.T, cache config.TokenCacheType) *Keyring {
	t.Helper()
	k := must.Get(New(oneProviderConfig(testTokenAttributes(cache)), Options{
		InProcess:       map[string]plugin.Provider{"p": o},
		ServiceAccounts: o, Sources: []Source{o},
	}))(t)
	return k
}

// TestMisbehavingCode passes code to a keyring that hangs, panics or exits its goroutine. It
// verifies that the lookup still ends with its context, that Close returns, and that the
// process survives.
func TestMisbehavingCode(t *testing.T) {
	for name, misbehaves := range map[string]func(forever chan struct{}) func(){
		"hangs":               func(forever chan struct{}) func() { return func() { <-forever } },
		"panics":              func(chan struct{}) func() { return func() { panic("with " + canary.TokenSecret) } },
		"ends its goroutine":  func(chan struct{}) func() { return runtime.Goexit },
		"panics with nothing": func(chan struct{}) func() { return func() { panic(nil) } },
	} {
		for _, at := range []string{"GetServiceAccount", "RequestToken", "Auths", "GetCredentials"} {
			for _, cache := range []config.TokenCacheType{config.CachePerServiceAccount, config.CachePerToken} {
				t.Run(fmt.Sprint(at, " ", name, " ", cache), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						forever := make(chan struct{})
						defer close(forever)
						o := &misbehavingClient{method: at, behave: misbehaves(forever), provider: recordingProvider{answer: newPluginResponder(plugin.CacheRegistry, time.Hour, "")}}
						k := o.newKeyring(t, cache)
						lookUpAndClose(t, k, at, name == "hangs")
					})
				})
			}
		}
	}
}

// lookUpAndClose does a lookup with a deadline. Then it closes the keyring during a lookup
// without a deadline.
func lookUpAndClose(t *testing.T, k *Keyring, at string, hangs bool) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begin := time.Now()
	res, err := k.Lookup(ctx, podRequest("r.example/x", "alice", 1))
	if took := time.Since(begin); took > patience || !hangs && took > time.Second {
		t.Errorf("the lookup took %v", took)
	}
	needed := at == "GetServiceAccount" || at == "RequestToken" || at == "GetCredentials" || at == "Auths" && hangs
	if (err != nil) != needed {
		t.Errorf("error %v", err)
	}
	if needed && !hangs && !strings.Contains(err.Error(), ": panic in github.com/") && !strings.Contains(err.Error(), ": it called runtime.Goexit") {
		t.Errorf("error %v, want it to say what happened", err)
	}
	canary.AssertAbsent(t, "error", fmt.Sprintf("%v %+v", err, res))

	var wg sync.WaitGroup
	wg.Go(func() { k.Lookup(context.Background(), podRequest("other.example/x", "bob", 1)) })
	synctest.Wait()
	begin = time.Now()
	k.Close()
	if took := time.Since(begin); took != 0 {
		t.Errorf("Close took %v", took)
	}
	wg.Wait()
}

// TestNilSource verifies that New rejects a nil source. Otherwise the first lookup would panic.
func TestNilSource(t *testing.T) {
	_, err := New(&config.Config{}, Options{Sources: []Source{NodeDockerConfig(NodePaths{}), nil}})
	if want := "keyring: Options.Sources[1] is nil"; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestErrorThatPanics verifies that the keyring handles a source's error whose Error method
// panics.
func TestErrorThatPanics(t *testing.T) {
	k, err := New(&config.Config{}, Options{Sources: []Source{testSource{"typed nil", func(context.Context) ([]AuthSet, error) {
		return nil, (*plugin.ExecError)(nil)
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	_, err = k.Lookup(t.Context(), Request{Image: "r.example/x"})
	var lookup *LookupError
	if !errors.As(err, &lookup) || !strings.Contains(err.Error(), "typed nil: read: panic in ") {
		t.Errorf("got %v, want a LookupError that names the panic", err)
	}
}

// TestNodeDockerConfigOnADiskThatHangs verifies that only one goroutine waits for a disk that
// hangs, and that each lookup returns when its context is done.
func TestNodeDockerConfigOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &nodeDockerConfig{}
		hung := &dockerConfigRead{done: make(chan struct{})}
		n.pending = hung // as if reading the files hangs
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
				defer cancel()
				begin := time.Now()
				if _, err := n.Auths(ctx, "r.example/x"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Duration(i+1)*time.Second {
					t.Errorf("%v after %v, want its deadline", err, time.Since(begin))
				}
			})
		}
		wg.Wait()
		if n.pending != hung {
			t.Error("another reader has begun")
		}
	})
}
