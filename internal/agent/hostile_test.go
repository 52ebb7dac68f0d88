// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package agent_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regcred/regcred/internal/agent"
	"github.com/regcred/regcred/internal/must"
)

// TestUselessRestartIsNotRepeated verifies that an install that restarted the kubelet is not
// repeated if the node still differs afterwards.
func TestUselessRestartIsNotRepeated(t *testing.T) {
	const restarted = `{"schemaVersion":1,"outcome":"mended","generation":1,"restart":["it runs without --x"],"warnings":[],"changes":[]}`
	const runsWithout = `{"schemaVersion":1,"node":{"kind":"kubeadm","kubelet":"1.36.3"},"current":1,"owner":"ns/rel","generations":[],"problems":[],"restart":["it runs without --x"]}`
	exitCodes[runsWithout] = 1
	p := newPod(t, commandResponses{"install": {restarted}, "status": {runsWithout}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, 2*time.Hour) })
	if n := strings.Count(p.node.runCommands(), "install"); n != 1 {
		t.Errorf("the kubelet was restarted %d times", n)
	}
	if s := p.lastStatus(t); s.Phase != agent.PhaseDrifted {
		t.Errorf("got %+v", s)
	}
}

// TestLongFailure verifies that the state file stays readable after a failure with a long message.
func TestLongFailure(t *testing.T) {
	long := strings.Replace(installRolledBack, "no new kubelet", strings.Repeat("no new kubelet ", 200_000), 1)
	exitCodes[long] = 1
	p := newPod(t, commandResponses{"install": {long}, "status": {notInstalled}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	p.restartAgent()
	p.node.calls = nil
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	if got := p.node.runCommands(); got != "status" {
		t.Errorf("after a restart of the container it ran %s: %v", got, p.messages)
	}
}

// TestStoppedAfterRestart verifies that a failed install that restarted the kubelet is not
// repeated by the next container, even if the agent is stopped immediately after the install.
func TestStoppedAfterRestart(t *testing.T) {
	p := newPod(t, commandResponses{"install": {installRolledBack}, "status": {"hangs"}})
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	p.restartAgent()
	p.node.calls, p.node.responses["status"] = nil, []string{notInstalled}
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	if got := p.node.runCommands(); got != "status" {
		t.Errorf("after a restart of the container it ran %s", got)
	}
}

// TestOtherGeneration verifies that a node is not reported as installed if another generation
// than the chart's is current.
func TestOtherGeneration(t *testing.T) {
	const (
		second     = `{"schemaVersion":1,"outcome":"installed","generation":2,"restart":[],"warnings":[],"changes":[]}`
		back       = `{"schemaVersion":1,"outcome":"rolled back","generation":2,"restart":[],"warnings":[],"changes":[]}`
		earlier    = clean
		isSecond   = `{"schemaVersion":1,"node":{"kind":"kubeadm","kubelet":"1.36.3"},"current":2,"owner":"ns/rel","generations":[],"kubeletHas":1,"problems":[],"restart":[]}`
		byHand     = `{"schemaVersion":1,"node":{"kind":"kubeadm","kubelet":"1.36.3"},"current":1,"generations":[],"kubeletHas":1,"problems":[],"restart":[]}`
		ofAnother  = `{"schemaVersion":1,"node":{"kind":"kubeadm","kubelet":"1.36.3"},"current":2,"owner":"ns/other","generations":[],"problems":[],"restart":[]}`
		generation = "the current generation is 1, but this chart installed generation 2"
	)
	t.Run("rolled back by hand", func(t *testing.T) {
		p := newPod(t, commandResponses{"install": {second, back}, "status": {isSecond, earlier, isSecond}})
		synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Minute+time.Second) })
		if got := p.node.runCommands(); got != "install, status, status, install, status" {
			t.Errorf("it ran %s", got)
		}
		if s := p.lastStatus(t); s.Phase != agent.PhaseInstalled || s.Repairs != 1 || !strings.Contains(strings.Join(p.messages, "\n"), "mended: "+generation) {
			t.Errorf("got %+v, %q", s, p.messages)
		}
	})
	for name, tt := range map[string]struct{ status, says string }{
		"installed by hand":  {byHand, "generation 1 was installed manually"},
		"of another release": {ofAnother, "generation 2 belongs to release ns/other"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, commandResponses{"install": {installed, ownedByOther}, "status": {clean, tt.status}})
			synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Minute+time.Second) })
			if s := p.lastStatus(t); s.Phase != agent.PhaseDrifted || !strings.Contains(strings.Join(s.Drift, "\n"), tt.says) {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// TestManyDifferences verifies that the agent handles thousands of differences and secret
// values.
func TestManyDifferences(t *testing.T) {
	const providers, values, differences = 500, 8, 3000
	var config, problems strings.Builder
	config.WriteString("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n")
	p := newPod(t, nil)
	for i := range providers {
		fmt.Fprintf(&config, "- {name: p%d, matchImages: [r%[1]d.example], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1, env: [", i)
		for j := range values {
			fmt.Fprintf(&config, "{name: E%d, value: secret-%d-%d-value},", j, i, j)
		}
		config.WriteString("]}\n")
		p.writeFile(t, fmt.Sprintf("plugins/p%d", i), "#!p")
	}
	p.writeFile(t, "config/providers.yaml", config.String())
	for i := range differences {
		fmt.Fprintf(&problems, `,"/x/%d: secret-%d-0-value has changed"`, i, i%providers)
	}
	status := strings.Replace(clean, `"problems":[]`, `"problems":[`+problems.String()[1:]+"]", 1)
	exitCodes[status] = 1
	p.node.responses = commandResponses{"install": {unchanged}, "status": {status, clean}}
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	s := p.lastStatus(t)
	if s.Phase != agent.PhaseDrifted || len(s.Drift) != 10 || s.Drift[9] != "and 2991 more" || s.Drift[0] != "/x/0: [redacted: env E0 of provider p0] has changed" || len(p.Status().Drift) != differences {
		t.Errorf("got %+v", s)
	}
	shown := slices.DeleteFunc(slices.Clone(p.Status().Drift), func(text string) bool { return text == "…" })
	if len(shown) != 10 {
		t.Errorf("%d texts were looked through for secrets that nobody is shown", len(shown)-10)
	}
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Minute) })
	for _, text := range append(p.raw, p.messages...) {
		if len(text) > 8<<10 || strings.Contains(text, "-0-value") {
			t.Errorf("%d bytes: %.1000s", len(text), text)
		}
	}
}

// TestDanglingPlugin verifies that a dangling symlink in the directory of third-party plugins
// is an error. The image's own plugin must not be used instead.
func TestDanglingPlugin(t *testing.T) {
	p := newPod(t, commandResponses{"install": {installed}, "status": {notInstalled}})
	theirs := filepath.Join(p.dir, "plugins/theirs")
	if err := errors.Join(os.Remove(theirs), os.Symlink("/nowhere/theirs", theirs)); err != nil {
		t.Skip("this user may not make symbolic links, as on Windows: ", err)
	}
	synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
	if s := p.lastStatus(t); s.Phase != agent.PhaseFailed || s.Reason != theirs+": dangling symlink" {
		t.Errorf("got %+v", s)
	}
}

// TestHostileCounts verifies that invalid counts are ignored, and that they do not stop the
// agent when metrics are scraped.
func TestHostileCounts(t *testing.T) {
	for name, counts := range map[string]string{
		"null":     `{"schemaVersion":1,"since":"2026-01-02T12:00:00Z","providers":{"a":null}}`,
		"negative": `{"schemaVersion":1,"since":"2026-01-02T12:00:00Z","providers":{"a":{"runs":1,"seconds":-1}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, commandResponses{"install": {installed}, "status": {strings.Replace(clean, `"problems"`, `"counts":`+counts+`,"problems"`, 1)}})
			synctest.Test(t, func(t *testing.T) { p.runFor(t, time.Second) })
			if s := p.lastStatus(t); s.Phase != agent.PhaseInstalled {
				t.Errorf("got %+v", s)
			}
			registry := must.Get(p.Metrics("v1"))(t)
			families, err := registry.Gather()
			for _, f := range families {
				if strings.HasPrefix(f.GetName(), "regcred_provider") {
					t.Errorf("%v", f)
				}
			}
			if err != nil || len(families) < 5 {
				t.Errorf("%d families, %v", len(families), err)
			}
		})
	}
}
