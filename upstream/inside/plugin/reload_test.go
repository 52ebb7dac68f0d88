// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/inside/plugin"
	"github.com/regcred/regcred/upstream/kubelet"
)

// logBuffer collects log lines. When a line contains hold, it sends on held and waits until it
// receives from release or release is closed.
type logBuffer struct {
	mu            sync.Mutex
	text          strings.Builder
	hold          string
	held, release chan struct{}
}

func (j *logBuffer) Write(line []byte) (int, error) {
	j.mu.Lock()
	j.text.Write(line)
	j.mu.Unlock()
	if j.hold != "" && strings.Contains(string(line), j.hold) {
		j.held <- struct{}{}
		<-j.release
	}
	return len(line), nil
}

func (j *logBuffer) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// captureLog captures the log in a journal until the test ends.
func captureLog(t *testing.T, verbosity int) *logBuffer {
	t.Helper()
	var b logBuffer
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

// TestReload verifies that the next lookup uses a changed configuration. An invalid configuration
// is logged once and ignored.
func TestReload(t *testing.T) {
	gather := plugin.NewMetrics()
	at := newPluginDir(t, provider{cacheDuration: "1h"})
	must.Do(t, ours.register(at.path, at.dir, kubelet.TokenFuncs{}))
	log := captureLog(t, 0)
	metrics := func() string { return strings.Join(metricValues(t, gather), "\n") }
	hash := func() string { return regexp.MustCompile("hash=.*").FindString(metrics()) }
	newer := provider{name: "newer", cacheDuration: "1h"}
	for _, step := range []struct {
		name string
		do   func()
		want []string
		says string // text that must be logged once
	}{
		{"as it was", func() {}, userCredential, ""},
		{"a provider more, without its executable", func() { writeFile(t, at.path, configYAML(provider{}, newer), 0o600) }, userCredential, `"Changed credential provider configuration cannot be used`},
		{"the same", func() {}, userCredential, ""},
		{"with its executable", func() { writeFile(t, filepath.Join(at.dir, "newer"), newer.executable(), 0o700) }, []string{"user of p", "user of newer"}, `"Changed credential provider configuration is in use"`},
		{"no configuration", func() { writeFile(t, at.path, "providers: [", 0o600) }, []string{"user of p", "user of newer"}, at.path},
		{"mended", func() { writeFile(t, at.path, configYAML(provider{}, newer), 0o600) }, []string{"user of p", "user of newer"}, ""},
		{"the same none", func() { writeFile(t, at.path, "providers: [", 0o600) }, []string{"user of p", "user of newer"}, at.path},
		{"none at all", func() { os.Remove(at.path) }, []string{"user of p", "user of newer"}, "no such file"},
		{"one provider less", func() { writeFile(t, at.path, configYAML(newer), 0o600) }, []string{"user of newer"}, "in use"},
	} {
		before, shown := len(log.String()), hash()
		step.do()
		creds, _ := ours.keyring("", "", "", "").Lookup("registry.example/app")
		ours.keyring("", "", "", "").Lookup("registry.example/app")
		if diff := cmp.Diff(step.want, formatCredentials(creds)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", step.name, diff)
		}
		said := log.String()[before:]
		if step.says == "" && said != "" || step.says != "" && (strings.Count(said, "\n") != 1 || !strings.Contains(said, step.says)) {
			t.Errorf("%s: logged %q, want one line with %q", step.name, said, step.says)
		}
		if got, want := hash() != shown, strings.Contains(step.says, "in use"); got != want {
			t.Errorf("%s: another hash is shown: %t, want %t", step.name, got, want)
		}
	}
	if runs := len(at.takeRuns(t, "p")); runs != 1 {
		t.Errorf("the first provider ran %d times, want 1: its answers are kept", runs)
	}
	_, hashed, err := kubelet.ReadConfig(at.path)
	if err != nil {
		t.Fatal(err)
	}
	got := metrics()
	for _, want := range []string{
		"config_info GAUGE hash=" + hashed + " 1",
		"config_automatic_reloads_total COUNTER status=failure 10", // two lookups in each of five steps
		"config_automatic_reloads_total COUNTER status=success 2",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

// TestLog verifies the log lines that users search for. They must be the same as the kubelet's,
// contain the reason, and contain no secrets.
func TestLog(t *testing.T) {
	at := newPluginDir(t, provider{script: "echo the first line >&2; echo canary-value-4b1d \"$SECRET\" >&2; exit 3\n", extraYAML: "  env: [{name: SECRET, value: canary-env-4b1d}]\n" + configWithCacheType("Token")}, provider{name: "a"})
	api := fakeTokenServer{lookupSettings: lookupSettings{annotations: annotatedAccount}}
	must.Do(t, ours.register(at.path, at.dir, api.tokenFuncs()))
	log := captureLog(t, 5)
	ring := ours.keyring("team", "web", "uid", "builder")
	ring.Lookup("registry.example/app")
	api.annotations = nil
	ring.Lookup("registry.example/app")
	ring.Lookup("[:::1]:5000/app")
	ours.keyring("team", "static", "uid", "").Lookup("registry.example/app")
	for _, want := range []string{
		`"Getting image credentials from external exec plugin" pluginName="a" image="registry.example/app"`,
		`"Failed to provide credentials for image" err="plugin \"p\": exec: exit status 3`,
		`provider="p" image="registry.example/app" pod="team/web" podUID="uid" serviceAccount="team/builder"`,
		`"Failed to get service account data" err="service account team/builder lacks the required annotation`,
		`"Provider was not run" provider="p" image="registry.example/app" reason="the provider requires a service account`,
		`"Lookup of credentials for image ended early" err=`,
		"the first line", // not in the error, which includes only the last line
		"plugin.go:",     // --vmodule selects by the file name
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("there is no %q in\n%s", want, log)
		}
	}
	canary.AssertAbsent(t, "the log", strings.ReplaceAll(log.String(), "canary-value-4b1d", ""))
}

// startBlockedCheck starts a lookup and returns when its check of the files logs a line that contains word.
// The check blocks until end is called.
func startBlockedCheck(t *testing.T, word string) (log *logBuffer, end func()) {
	log = captureLog(t, 0)
	log.hold, log.held, log.release = word, make(chan struct{}), make(chan struct{})
	done := make(chan int)
	go func() { done <- countCredentials() }()
	<-log.held
	return log, sync.OnceFunc(func() {
		close(log.release)
		<-done
	})
}

// countCredentials looks up an image and returns the number of credentials.
func countCredentials() int {
	creds, _ := ours.keyring("", "", "", "").Lookup("registry.example/app")
	return len(creds)
}

// TestChangeDuringCheck verifies a lookup that starts during another lookup's check. If the files
// change after that check has read them, the new lookup must use the change.
func TestChangeDuringCheck(t *testing.T) {
	at := newPluginDir(t, provider{match: "[a.example]"})
	must.Do(t, ours.register(at.path, at.dir, kubelet.TokenFuncs{}))
	plugin.ShiftClock(time.Hour) // the files are old enough to be trusted
	writeFile(t, at.path, configYAML(provider{match: "[b.example]"}), 0o600)
	log, end := startBlockedCheck(t, "is in use")
	defer end()
	writeFile(t, at.path, configYAML(provider{}), 0o600)
	second := make(chan int)
	go func() { second <- countCredentials() }()
	time.Sleep(100 * time.Millisecond) // the second lookup is waiting now
	log.release <- struct{}{}          // release only the first check
	select {
	case <-log.held: // the second check has read the files
	case n := <-second:
		t.Fatalf("%d credentials before the files were compared again", n)
	}
	select {
	case n := <-second:
		t.Fatalf("%d credentials before the comparison ended", n)
	case <-time.After(100 * time.Millisecond):
	}
	log.release <- struct{}{}
	if n := <-second; n != 1 {
		t.Errorf("%d credentials, want 1", n)
	}
}

// TestHangingCheck verifies that only one lookup waits for a check that hangs, and that lookups
// then continue with the old configuration. When the check ends, they use the change.
func TestHangingCheck(t *testing.T) {
	at := newPluginDir(t, provider{})
	must.Do(t, ours.register(at.path, at.dir, kubelet.TokenFuncs{}))
	writeFile(t, at.path, "providers: [", 0o600)
	_, end := startBlockedCheck(t, "cannot be used")
	defer end()
	start := time.Now()
	if n := countCredentials(); n != 1 {
		t.Errorf("%d credentials, want 1", n)
	}
	if waited := time.Since(start); waited < time.Second || waited > 30*time.Second {
		t.Errorf("the first lookup took %v, want 2 s", waited)
	}
	start = time.Now()
	for range 5 {
		if n := countCredentials(); n != 1 {
			t.Errorf("%d credentials, want 1", n)
		}
	}
	if waited := time.Since(start); waited > time.Second {
		t.Errorf("the next five took %v, want no wait", waited)
	}
	writeFile(t, at.path, configYAML(provider{match: "[other.example]"}), 0o600)
	end()
	for start = time.Now(); countCredentials() != 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("the change is not in use")
		}
	}
	countCredentials() // waits for the check that reloads the files and logs
}

// TestRegisterBesideLookups verifies that a lookup in progress finishes with the old providers if
// other providers are registered. The next lookup uses the new providers.
func TestRegisterBesideLookups(t *testing.T) {
	slow := provider{}
	slow.script = "until [ -e \"$0.go\" ]; do sleep 0.02; done\n" + slow.answerScript()
	former, next := newPluginDir(t, slow), newPluginDir(t, provider{match: "[other.example]"})
	must.Do(t, ours.register(former.path, former.dir, kubelet.TokenFuncs{}))
	ring, first := ours.keyring("", "", "", ""), make(chan int)
	go func() { first <- countCredentials() }()
	for len(former.takeRuns(t, "p")) == 0 {
		time.Sleep(time.Millisecond)
	}
	must.Do(t, ours.register(next.path, next.dir, kubelet.TokenFuncs{}))
	writeFile(t, filepath.Join(former.dir, "p.go"), "", 0o600)
	if n := <-first; n != 1 {
		t.Errorf("%d credentials of the former providers, want 1", n)
	}
	if creds, _ := ring.Lookup("other.example/app"); len(creds) != 0 || lookupError(ring) != nil {
		t.Errorf("%d credentials, %v: want none for another host", len(creds), lookupError(ring))
	}
	if runs := len(next.takeRuns(t, "p")); runs != 1 {
		t.Errorf("the new provider ran %d times, want 1", runs)
	}
}
