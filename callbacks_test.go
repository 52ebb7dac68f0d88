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
	"github.com/regcred/regcred/plugin"
)

// outsider is code that is given to a keyring and misbehaves at one place.
type outsider struct {
	accounts
	at       string // the name of the method
	behave   func()
	provider script
}

func (o *outsider) call(name string) {
	if name == o.at {
		o.behave()
	}
}

func (o *outsider) GetServiceAccount(ctx context.Context, namespace, name string) (*ServiceAccount, error) {
	o.call("GetServiceAccount")
	return o.accounts.GetServiceAccount(ctx, namespace, name)
}

func (o *outsider) RequestToken(ctx context.Context, req TokenRequest) (plugin.Secret, error) {
	o.call("RequestToken")
	return o.accounts.RequestToken(ctx, req)
}

func (o *outsider) Name() string { return "outsider" }

func (o *outsider) Auths(context.Context, string) ([]AuthSet, error) {
	o.call("Auths")
	return nil, nil
}

func (o *outsider) GetCredentials(ctx context.Context, req *plugin.Request) (*plugin.Response, error) {
	o.call("GetCredentials")
	return o.provider.GetCredentials(ctx, req)
}

func (o *outsider) keyring(t *testing.T, cache config.TokenCacheType) *Keyring {
	t.Helper()
	k, err := New(oneProvider(perAccount(cache)), Options{
		InProcess:       map[string]plugin.Provider{"p": o},
		ServiceAccounts: o, Sources: []Source{o},
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestOutsiders: whatever the code does that a keyring is given, a lookup ends
// with its context, Close with what is under way, and the process lives on.
func TestOutsiders(t *testing.T) {
	for name, misbehaves := range map[string]func(forever chan struct{}) func(){
		"hangs":               func(forever chan struct{}) func() { return func() { <-forever } },
		"panics":              func(chan struct{}) func() { return func() { panic("with " + canary.Token) } },
		"ends its goroutine":  func(chan struct{}) func() { return runtime.Goexit },
		"panics with nothing": func(chan struct{}) func() { return func() { panic(nil) } },
	} {
		for _, at := range []string{"GetServiceAccount", "RequestToken", "Auths", "GetCredentials"} {
			for _, cache := range []config.TokenCacheType{config.CachePerServiceAccount, config.CachePerToken} {
				t.Run(fmt.Sprint(at, " ", name, " ", cache), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						forever := make(chan struct{})
						defer close(forever)
						o := &outsider{at: at, behave: misbehaves(forever), provider: script{answer: respond(plugin.CacheRegistry, time.Hour, "")}}
						k := o.keyring(t, cache)
						lookOutside(t, k, at, name == "hangs")
					})
				})
			}
		}
	}
}

// lookOutside looks up with a deadline, and closes the keyring during a lookup
// that has none.
func lookOutside(t *testing.T, k *Keyring, at string, hangs bool) {
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
	canary.Check(t, "error", fmt.Sprintf("%v %+v", err, res))

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

// TestNilSource is refused: it would only be seen at the first lookup.
func TestNilSource(t *testing.T) {
	_, err := New(&config.Config{}, Options{Sources: []Source{NodeDockerConfig(NodePaths{}), nil}})
	if want := "keyring: Options.Sources[1] is nil"; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestErrorThatPanics: an error of others is code of others too.
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

// TestNodeDockerConfigOnADiskThatHangs: one reader waits for the disk, however
// many lookups there are, and each of these for its context alone.
func TestNodeDockerConfigOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &nodeConfig{}
		hung := &nodeFiles{done: make(chan struct{})}
		n.pending = hung // as while a file system does not answer
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
