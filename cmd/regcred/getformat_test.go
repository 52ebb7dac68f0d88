// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"encoding/base64"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/plugin"
)

// TestFormatsWithoutUser checks that a credential without a user name, which clients cannot use, is rejected.
func TestFormatsWithoutUser(t *testing.T) {
	for _, format := range []string{"docker-config", "secret", "crictl"} {
		data, err := formatCredential(format, metav1.ObjectMeta{}, "registry.example/app", regcred.Credential{Password: plugin.NewSecret(canary.PasswordSecret)})
		if err == nil || data != nil || !strings.Contains(err.Error(), "-o "+format+": the credential for registry.example/app has no user name") {
			t.Errorf("%s: got %q, %v", format, data, err)
		}
	}
}

// TestLineFormatsRejectOddValues checks that line-based formats reject values that they cannot
// represent, and that encoded formats keep the whole value.
func TestLineFormatsRejectOddValues(t *testing.T) {
	for _, tt := range []struct{ user, password string }{
		{"ci\nroot", "x"}, {"ci", "x\n"}, {"ci\x1b[2J", "x"}, {"ci", "x\x00y"}, {"ci\u202e", "x"}, {"ci\u009b", "x"}, {"ci\xff", "x"}, {"ci", "x\r"},
	} {
		c := regcred.Credential{Username: tt.user, Password: plugin.NewSecret(tt.password)}
		data, err := formatCredential("crictl", metav1.ObjectMeta{}, "registry.example/app", c)
		if err == nil || data != nil || strings.Contains(err.Error(), tt.user) && !terminal.IsPrintable(tt.user) {
			t.Errorf("crictl, %q: got %q, %v", tt.user+":"+tt.password, data, err)
		}
		data, err = formatCredential("docker-config", metav1.ObjectMeta{}, "registry.example/app", c)
		if want := base64.StdEncoding.EncodeToString([]byte(tt.user + ":" + tt.password)); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("docker-config, %q: got %q, %v", tt.user, data, err)
		}
		data, err = formatCredential("secret", metav1.ObjectMeta{Name: "x"}, "registry.example/app", c)
		if err != nil || !terminal.IsPrintableLines(string(data)) {
			t.Errorf("secret, %q: got %q, %v", tt.user, data, err)
		}
	}
	c := regcred.Credential{Username: "é ü", Password: plugin.NewSecret("$(id) '\"")}
	if data, err := formatCredential("crictl", metav1.ObjectMeta{}, "registry.example/app", c); err != nil || string(data) != "é ü:$(id) '\"\n" {
		t.Errorf("got %q, %v", data, err)
	}
}
