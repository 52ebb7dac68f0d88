// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubeconfig

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
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/kube"
)

// TestMain makes the test binary run as the exec credential plugin of a kubeconfig.
func TestMain(m *testing.M) {
	switch url, text := os.Getenv("TEST_EXEC_ASKS"), os.Getenv("TEST_EXEC_WRITES"); {
	case url != "":
		_, _ = http.Get(url) // the server does not respond
		os.Exit(1)
	case text != "":
		fmt.Print(text)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// execClient returns a client whose kubeconfig runs the test binary for credentials.
func execClient(t *testing.T, variable, value string) *kube.Client {
	t.Helper()
	path := writeConfig(t, filepath.Join(t.TempDir(), "config"), "https://127.0.0.1:1", func(_, user map[string]any) {
		delete(user, "token")
		user["exec"] = map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1", "command": os.Args[0], "interactiveMode": "Never",
			"env": []any{map[string]any{"name": variable, "value": value}},
		}
	})
	cfg, _, err := Load(Options{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	return must.Get(kube.New(cfg, kube.Options{}))(t)
}

// TestExecWrites checks that errors never contain the output of an exec credential plugin, even if
// the output is invalid.
func TestExecWrites(t *testing.T) {
	const head = `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":`
	for _, tt := range []struct{ name, text, want string }{
		{"text", canary.TokenSecret, "the program's output is not an ExecCredential"},
		{"another kind", `{"kind":"` + canary.TokenSecret + `"}`, "the program's output is not an ExecCredential"},
		{"time", head + `{"token":"x","expirationTimestamp":"` + canary.TokenSecret + `"}}`, "the program's output is not an ExecCredential"},
		{"no token", head + `{}}`, "didn't return a token or cert/key pair"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := execClient(t, "TEST_EXEC_WRITES", tt.text).WhoAmI(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got no error with %q in one line", tt.want)
			}
			if err != nil {
				canary.AssertAbsent(t, "the error", err.Error())
			}
		})
	}
}

// TestExecHangs checks that an exec credential plugin that hangs does not block a canceled call.
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
