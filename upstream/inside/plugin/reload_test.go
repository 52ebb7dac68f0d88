// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/upstream/inside/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

// logged is what is logged until the test ends.
func logged(t *testing.T, verbosity int) *strings.Builder {
	t.Helper()
	var b strings.Builder
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	flags.Set("v", strconv.Itoa(verbosity))
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&b), textlogger.Verbosity(verbosity))))
	t.Cleanup(func() {
		klog.SetLogger(klog.Logger{})
		flags.Set("v", "0")
	})
	return &b
}

// TestReload: a change of the configuration is in effect at the next lookup;
// what cannot be used is logged once, and changes nothing.
func TestReload(t *testing.T) {
	gather := plugin.NewMetrics()
	at := newPlace(t, provider{lasting: "1h"})
	if err := ours.register(at.path, at.dir, kubelet.Tokens{}); err != nil {
		t.Fatal(err)
	}
	log := logged(t, 0)
	newer := provider{name: "newer", lasting: "1h"}
	for _, step := range []struct {
		name string
		do   func()
		want []string
		says string // in the log, once
	}{
		{"as it was", func() {}, user, ""},
		{"a provider more, without its executable", func() { write(t, at.path, configOf(provider{}, newer), 0o600) }, user, `"Changed credential provider configuration cannot be used`},
		{"the same", func() {}, user, ""},
		{"with its executable", func() { write(t, filepath.Join(at.dir, "newer"), newer.executable(), 0o700) }, []string{"user of p", "user of newer"}, `"Changed credential provider configuration is in use"`},
		{"no configuration", func() { write(t, at.path, "providers: [", 0o600) }, []string{"user of p", "user of newer"}, at.path},
		{"none at all", func() { os.Remove(at.path) }, []string{"user of p", "user of newer"}, "no such file"},
		{"one provider less", func() { write(t, at.path, configOf(newer), 0o600) }, []string{"user of newer"}, "in use"},
	} {
		before := log.Len()
		step.do()
		creds, _ := ours.keyring("", "", "", "").Lookup("registry.example/app")
		ours.keyring("", "", "", "").Lookup("registry.example/app")
		if diff := cmp.Diff(step.want, found(creds)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", step.name, diff)
		}
		said := log.String()[before:]
		if step.says == "" && said != "" || step.says != "" && (strings.Count(said, "\n") != 1 || !strings.Contains(said, step.says)) {
			t.Errorf("%s: logged %q, want one line with %q", step.name, said, step.says)
		}
	}
	if runs := len(at.runs(t, "p")); runs != 1 {
		t.Errorf("the first provider ran %d times, want 1: its answers are kept", runs)
	}
	_, hash, err := kubelet.ReadConfig(at.path)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(values(t, gather), "\n"); !strings.Contains(got, "config_info GAUGE hash="+hash+" 1") {
		t.Errorf("the hash of the configuration in use is not shown:\n%s", got)
	}
}

// TestLog: the lines for which journals are searched are those of the kubelet, with
// the reason, and without a secret.
func TestLog(t *testing.T) {
	at := newPlace(t, provider{script: "echo canary-value-4b1d \"$SECRET\" >&2; exit 3\n", more: "  env: [{name: SECRET, value: canary-env-4b1d}]\n" + inMode("Token")}, provider{name: "a"})
	api := server{settings: settings{annotations: annotated}}
	if err := ours.register(at.path, at.dir, api.tokens()); err != nil {
		t.Fatal(err)
	}
	log := logged(t, 5)
	ring := ours.keyring("team", "web", "uid", "builder")
	ring.Lookup("registry.example/app")
	api.annotations = nil
	ring.Lookup("registry.example/app")
	for _, want := range []string{
		`"Getting image credentials from external exec plugin" pluginName="a" image="registry.example/app"`,
		`"Failed to provide credentials for image" err="plugin \"p\": exec: exit status 3`,
		`provider="p" image="registry.example/app" pod="team/web" podUID="uid" serviceAccount="team/builder"`,
		`"Failed to get service account data" err="service account team/builder lacks the required annotation`,
		"plugin.go:", // by which --vmodule selects it
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("there is no %q in\n%s", want, log)
		}
	}
	canary.Check(t, "the log", strings.ReplaceAll(log.String(), "canary-value-4b1d", ""))
}

// TestChangeDuringCheck: a lookup that begins while another one compares the files
// has a change that this one came too early for.
func TestChangeDuringCheck(t *testing.T) {
	at := newPlace(t, provider{match: "[registry.exampl2]"})
	if err := ours.register(at.path, at.dir, kubelet.Tokens{}); err != nil {
		t.Fatal(err)
	}
	look := func() int {
		creds, _ := ours.keyring("", "", "", "").Lookup("registry.example/app")
		return len(creds)
	}
	held, release := plugin.HoldCheck()
	go look()
	held()
	write(t, at.path, configOf(provider{}), 0o600)
	second := make(chan int)
	go func() { second <- look() }()
	time.AfterFunc(100*time.Millisecond, release) // by then it waits
	if n := <-second; n != 1 {
		t.Errorf("%d credentials, want 1", n)
	}
}
