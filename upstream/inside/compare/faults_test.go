// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package compare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/node"
)

// TestChildHoldsStdout runs a plugin that responds and exits, but leaves a child process behind.
// The child keeps the plugin's standard output open beyond the one-minute timeout.
func TestChildHoldsStdout(t *testing.T) {
	node.SkipUnlessSupported(t)
	t.Parallel()
	type result struct {
		podOutcome
		ended bool // whether the child exited before the pull continued
		log   []string
	}
	p := provider{name: "forks", host: registryHost, script: "(sleep 75; echo >ended) &"}
	got := forEachKubelet(t, true, func(t *testing.T, s kubeletVariant) (r result) {
		c := s.startNode(t, []provider{p})
		r.podOutcome = c.waitPod(t, c.runPod(t, c.newPod(t, registryHost, "app")), time.Now())
		_, err := os.Stat(filepath.Join(c.dir, "ended"))
		r.ended = err == nil
		r.log = c.kubelet.LogRecords(t, "Failed to provide credentials")
		return r
	})
	b := newResultTable()
	b.addTexts("a child holds the plugin's output for 75 s", func(s string) string { return got[s].String() })
	b.logTable(t)
	t.Logf("the kubelet's log: %q", got[unmodifiedKubelet].log)
	if r := got[embeddedKubelet]; !r.pulled || r.ended {
		t.Errorf("inside: %v, the child had ended: %v; want a pull before it ends", r, r.ended)
	}
	if r := got[unmodifiedKubelet]; r.pulled || !r.ended {
		t.Errorf("upstream: %v, the child had ended: %v; want no pull, and that only after it ended", r, r.ended)
	}
}

// TestChange adds a provider for another registry to a running kubelet's configuration.
func TestChange(t *testing.T) {
	node.SkipUnlessSupported(t)
	t.Parallel()
	type result struct {
		first, restarted podOutcome
		execs            int // execs before the restart
		found            time.Duration
	}
	const later = "later.example"
	old, added := provider{name: "old", host: registryHost}, provider{name: "added", host: later}
	got := forEachKubelet(t, true, func(t *testing.T, s kubeletVariant) (r result) {
		c := s.startNode(t, []provider{old}, later)
		if o := c.waitPod(t, c.runPod(t, c.newPod(t, registryHost, "before")), time.Now()); !o.pulled {
			t.Fatal(o)
		}
		added.writePlugin(t, c.dir)
		c.writeProviders(t, []provider{old, added})
		began := time.Now()
		pod := c.runPod(t, c.newPod(t, later, "app"))
		r.first = c.waitPod(t, pod, began)
		if s.name == embeddedKubelet {
			r.found = c.waitPods(t, 2).Sub(began)
		} else {
			c.waitPullFailures(t, pod, 2)
		}
		r.execs = len(c.pluginRunTimes(t, added.name))
		if s.name == unmodifiedKubelet {
			c.kubelet.Restart(t, nil)
			r.restarted = c.waitPod(t, c.runPod(t, c.newPod(t, later, "restarted")), time.Now())
		}
		return r
	})
	b := newResultTable()
	b.addTexts("a provider added to the file: the first pod after it", func(s string) string { return got[s].first.String() })
	b.addCounts("a provider added to the file: execs without a restart", func(s string) int { return got[s].execs })
	b.logTable(t)
	t.Logf("inside, the pod ran %v after the change; upstream, after a restart: %v", got[embeddedKubelet].found, got[unmodifiedKubelet].restarted)
	if r := got[unmodifiedKubelet]; r.first.pulled || r.execs != 0 || !r.restarted.pulled {
		t.Errorf("upstream: %+v; want no exec before a restart, and a pull after it", r)
	}
	if r := got[embeddedKubelet]; r.execs == 0 {
		t.Errorf("inside: %+v; want an exec", r)
	}
}

// waitPullFailures waits until n pulls of a pod have failed.
func (c *kubeletNode) waitPullFailures(t *testing.T, pod *corev1.Pod, n int) {
	t.Helper()
	node.Eventually(t, podTimeout, func(ctx context.Context) error {
		list, err := c.control.Client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
		if err != nil {
			return err
		}
		failed := 0
		for _, e := range list.Items {
			if e.Reason == "Failed" && !isStateEvent(e.Message) {
				failed += int(max(e.Count, 1))
			}
		}
		if failed < n {
			return fmt.Errorf("%d pulls of pod %s have failed, want %d", failed, pod.Name, n)
		}
		return nil
	})
}

// TestEvents compares the events of pods for which a provider fails.
func TestEvents(t *testing.T) {
	node.SkipUnlessSupported(t)
	t.Parallel()
	cases := []struct {
		provider
		what   string
		reason string // text expected in the event
	}{
		{provider{name: "refused", host: "refused.example", script: "echo 'the role team-pull may not be assumed' >&2; exit 1"},
			"exit status 1, a reason on standard error", "the role team-pull may not be assumed"},
		{provider{name: "garbage", host: "garbage.example", script: "echo welcome"},
			"output that is no answer", "invalid CredentialProviderResponse"},
		{provider{name: "crashes", host: "crashes.example", script: "kill -SEGV $$"},
			"ended by a signal", "segmentation fault"},
		{provider{name: "hangs", host: "hangs.example", script: "exec sleep 300"},
			"no response within a minute", "no response within 1m0s"},
	}
	var providers []provider
	for _, tt := range cases {
		providers = append(providers, tt.provider)
	}
	got := forEachKubelet(t, true, func(t *testing.T, s kubeletVariant) []podOutcome {
		c := s.startNode(t, providers)
		var pods []*corev1.Pod
		began := time.Now()
		for _, p := range providers {
			pods = append(pods, c.runPod(t, c.newPod(t, p.host, p.name)))
		}
		var list []podOutcome
		for _, pod := range pods {
			list = append(list, c.waitPod(t, pod, began))
		}
		canary.AssertAbsent(t, "the kubelet's log", strings.Join(c.kubelet.LogRecords(t), "\n"))
		return list
	})
	b := newResultTable()
	for i, tt := range cases {
		b.addTexts(tt.what, func(s string) string { return got[s][i].String() })
		name := fmt.Sprintf("%q", tt.name)
		if o := got[unmodifiedKubelet][i]; o.pulled || strings.Contains(o.event, name) || strings.Contains(o.event, tt.reason) {
			t.Errorf("%s: upstream: %v; the page says that the reason is not told", tt.what, o)
		}
		if o := got[embeddedKubelet][i]; o.pulled || !strings.Contains(o.event, tt.reason) || !strings.Contains(o.event, name) {
			t.Errorf("%s: inside: %v; want %q and the provider's name", tt.what, o, tt.reason)
		}
	}
	b.logTable(t)
}

// TestFlood runs a plugin that writes a very large output. It is not parallel because it measures
// memory.
func TestFlood(t *testing.T) {
	node.SkipUnlessSupported(t)
	type result struct {
		podOutcome
		memory int64
	}
	const size = 256 << 20
	p := provider{name: "floods", host: registryHost, script: fmt.Sprintf("head -c %d /dev/zero; exit 1", size)}
	got := forEachKubelet(t, false, func(t *testing.T, s kubeletVariant) (r result) {
		c := s.startNode(t, []provider{p})
		r.podOutcome = c.waitPod(t, c.runPod(t, c.newPod(t, registryHost, "app")), time.Now())
		r.memory = c.residentMemory(t)
		return r
	})
	b := newResultTable()
	b.addSizes(fmt.Sprintf("a plugin that writes %d MB: most memory of the kubelet", size>>20), func(s string) int64 { return got[s].memory })
	b.addTexts("its event", func(s string) string { return got[s].String() })
	b.logTable(t)
	if got[unmodifiedKubelet].memory < size || got[embeddedKubelet].memory >= size {
		t.Errorf("memory: upstream %d, want the output kept; inside %d, want less than %d", got[unmodifiedKubelet].memory, got[embeddedKubelet].memory, size)
	}
}

// TestFailing starts pods whose plugin fails, as when a cloud throttles requests. Half of the pods
// have an image each, the other half share an image. The kubelet syncs a pod repeatedly, and each
// sync looks up credentials, even during the back-off of a failed pull.
func TestFailing(t *testing.T) {
	node.SkipUnlessSupported(t)
	const (
		pods   = 50 // pods in each half
		shared = "shared.example"
	)
	type result struct {
		execs, lookups map[string]int // counts by host
		pulls          int
	}
	const fails = "sleep 0.3; echo '429 Too Many Requests' >&2; exit 2"
	providers := []provider{{name: "own", host: registryHost, script: fails}, {name: "shared", host: shared, script: fails}}
	got := forEachKubelet(t, true, func(t *testing.T, s kubeletVariant) result {
		c := s.startNode(t, providers)
		var list []*corev1.Pod
		image := c.registry[shared].PushApp(t, "team/app", "v1")
		for i := range pods {
			list = append(list, c.newPod(t, registryHost, fmt.Sprintf("own-%d", i)), node.NewPod("team", fmt.Sprintf("shared-%d", i), image))
		}
		began := c.runPods(t, list)
		time.Sleep(time.Until(began.Add(2 * time.Minute)))
		r := result{map[string]int{}, map[string]int{}, len(c.kubelet.LogRecords(t, "PullImage from image service failed"))}
		for _, p := range providers {
			// Count in this order: an exec is recorded when it starts, a lookup when it ends.
			r.lookups[p.host] = len(c.kubelet.LogRecords(t, "Failed to provide credentials for image", p.host+"/"))
			r.execs[p.host] = len(c.pluginRunTimes(t, p.name))
		}
		return r
	})
	b := newResultTable()
	for _, half := range []struct{ host, what string }{{registryHost, "an image each"}, {shared, "one image"}} {
		what := fmt.Sprintf("a plugin fails after 0.3 s, %d pods with %s, two minutes: ", pods, half.what)
		b.addCounts(what+"lookups", func(s string) int { return got[s].lookups[half.host] })
		b.addCounts(what+"execs", func(s string) int { return got[s].execs[half.host] })
	}
	b.addCounts("the same, all pods: pulls that were tried", func(s string) int { return got[s].pulls })
	b.logTable(t)
	for name, r := range got {
		own, all := r.lookups[registryHost], r.lookups[registryHost]+r.lookups[shared]
		if own < 3*pods || r.execs[registryHost] < own {
			t.Errorf("%s, an image each: %d execs in %d lookups; want at least %d, and an exec in each", name, r.execs[registryHost], own, 3*pods)
		}
		if n := r.execs[shared]; n < 3 || n > r.lookups[shared]/2 {
			t.Errorf("%s, one image: %d execs in %d lookups; want fewer, side by side they share one", name, n, r.lookups[shared])
		}
		if r.pulls < 2*pods || r.pulls > all*3/4 {
			t.Errorf("%s: %d pulls in %d lookups; want fewer, the others were put off", name, r.pulls, all)
		}
	}
}

// TestEmpty runs a plugin that at first returns no credential, in a response that is cached for an
// hour. Then the plugin's response is fixed.
func TestEmpty(t *testing.T) {
	node.SkipUnlessSupported(t)
	t.Parallel()
	type result struct {
		pulled bool
		execs  int // execs in the two minutes after the fix
	}
	p := provider{name: "empty", host: registryHost}
	got := forEachKubelet(t, true, func(t *testing.T, s kubeletVariant) (r result) {
		c := s.startNode(t, []provider{p})
		good := filepath.Join(c.dir, p.name+".answer")
		content := must.Get(os.ReadFile(good))(t)
		writeFile(t, good, pluginResponse(t, map[string]any{}))
		pod := c.runPod(t, c.newPod(t, registryHost, "app"))
		if o := c.waitPod(t, pod, time.Now()); o.pulled {
			t.Fatal(o)
		}
		writeFile(t, good, string(content))
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end) && !r.pulled; time.Sleep(time.Second) {
			now := must.Get(c.control.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}))(t)
			r.pulled = isRunning(now)
		}
		r.execs = len(c.pluginRunTimes(t, p.name))
		return r
	})
	b := newResultTable()
	b.addCounts("an answer without credentials, for an hour: execs in the next two minutes", func(s string) int { return got[s].execs })
	b.logTable(t)
	if r := got[unmodifiedKubelet]; r.pulled || r.execs != 1 {
		t.Errorf("upstream: %+v; want the response kept", r)
	}
	if r := got[embeddedKubelet]; !r.pulled || r.execs < 2 {
		t.Errorf("inside: %+v; want another exec, and a pull", r)
	}
}

// TestSecret verifies a pod with two pull secrets, one of which is broken.
func TestSecret(t *testing.T) {
	node.SkipUnlessSupported(t)
	t.Parallel()
	got := forEachKubelet(t, true, func(t *testing.T, s kubeletVariant) podOutcome {
		c := s.startNode(t, []provider{{name: "unused", host: "unused.example"}}, registryHost)
		c.control.AddPullSecret(t, "team", "good", registryHost, testUser, canary.PasswordSecret)
		broken := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths": {"other.example": {"auth": "no base64"}}}`)},
		}
		must.Get(c.control.Client.CoreV1().Secrets("team").Create(t.Context(), broken, metav1.CreateOptions{}))(t)
		pod := c.newPod(t, registryHost, "app")
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "good"}, {Name: "broken"}}
		return c.waitPod(t, c.runPod(t, pod), time.Now())
	})
	b := newResultTable()
	b.addTexts("one of two pull secrets is broken", func(s string) string { return got[s].String() })
	b.logTable(t)
	if o := got[unmodifiedKubelet]; o.pulled {
		t.Errorf("upstream: %v; the page says that the pull fails", o)
	}
}
