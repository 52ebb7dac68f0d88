// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/canary"
)

// TestMain makes the test binary play the program of a kubeconfig.
func TestMain(m *testing.M) {
	switch url, text := os.Getenv("TEST_EXEC_ASKS"), os.Getenv("TEST_EXEC_WRITES"); {
	case url != "":
		_, _ = http.Get(url) // which does not answer
		os.Exit(1)
	case text != "":
		fmt.Print(text)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// execClient is a client that has its credentials from this program.
func execClient(t *testing.T, variable, value string) *Client {
	t.Helper()
	path := kubeconfig(t, filepath.Join(t.TempDir(), "config"), "https://127.0.0.1:1", func(_, user map[string]any) {
		delete(user, "token")
		user["exec"] = map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1", "command": os.Args[0], "interactiveMode": "Never",
			"env": []any{map[string]any{"name": variable, "value": value}},
		}
	})
	cfg, _, err := Config(ConfigOptions{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestExecWrites: what the program of a kubeconfig writes is a secret, also if
// it is of no use.
func TestExecWrites(t *testing.T) {
	const head = `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":`
	for _, tt := range []struct{ name, text, want string }{
		{"text", canary.Token, "the program's output is not an ExecCredential"},
		{"another kind", `{"kind":"` + canary.Token + `"}`, "the program's output is not an ExecCredential"},
		{"time", head + `{"token":"x","expirationTimestamp":"` + canary.Token + `"}}`, "the program's output is not an ExecCredential"},
		{"no token", head + `{}}`, "didn't return a token or cert/key pair"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := execClient(t, "TEST_EXEC_WRITES", tt.text).WhoAmI(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got no error with %q in one line", tt.want)
			}
			if err != nil {
				canary.Check(t, "the error", err.Error())
			}
		})
	}
}

// TestExecHangs: a program that hangs does not hold up who has given up.
func TestExecHangs(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-release
	}))
	defer server.Close()
	defer close(release)
	c := execClient(t, "TEST_EXEC_ASKS", server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.WhoAmI(ctx)
		done <- err
	}()
	<-asked
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got the error %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for the program")
	}
}
