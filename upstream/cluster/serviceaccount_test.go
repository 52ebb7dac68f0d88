// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testregistry"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/node"
	"github.com/regcred/regcred/upstream/plugins"
)

// usernameKey is the annotation with the user name of a service account.
const usernameKey = "registry.example/user"

// serviceAccountTest is a cluster with a registry that trusts the tokens of its service accounts. The host in an
// image selects the provider.
type serviceAccountTest struct {
	guard   *tokenRegistry
	sts     *tokenExchange
	control *node.ControlPlane
	kubelet *node.Kubelet
	ours    regcredOnNode
}

func startServiceAccountTest(t *testing.T) *serviceAccountTest {
	t.Helper()
	net := node.NewFakeNetwork(t)
	control := node.StartControlPlane(t)
	s := &serviceAccountTest{
		control: control,
		guard: startTokenRegistry(t, net, control, testregistry.Options{
			Users: map[string]string{"ci": canary.PasswordSecret, "robot": canary.PasswordSecret},
			Rules: []testregistry.Rule{
				{User: testregistry.AnyUser, Prefix: "open", Pull: true},
				{User: "team.puller", Prefix: "private", Pull: true},
			},
		}),
		sts: startTokenExchange(t, control, "sts.example", canary.PasswordSecret),
	}
	s.addObjects(t)
	config, binDir := s.writeConfig(t)
	s.kubelet = node.StartKubelet(t, node.KubeletOptions{
		Runtime: node.StartContainerd(t, net), ControlPlane: control, ProviderConfig: config, BinDir: binDir,
		Config: node.FeatureServiceAccounts.EnablingConfig(t),
	})
	// The longer of two matching keys comes first, whatever their order in the file.
	writeFile(t, filepath.Join(s.kubelet.RootDir(), "config.json"), dockerConfig(
		"order.example", "node", "order.example/open/deep", "node-deep",
	))
	s.ours = newRegcredOnNode(t, s.kubelet)
	return s
}

// dockerConfig returns a docker config file for hosts and users, with wrong passwords only.
func dockerConfig(hostsAndUsers ...string) string {
	var entries []string
	for i := 0; i < len(hostsAndUsers); i += 2 {
		user := hostsAndUsers[i+1]
		entries = append(entries, fmt.Sprintf(`%q: {"username": %q, "password": %q}`, hostsAndUsers[i], user, wrongPasswordMessage(user)))
	}
	return `{"auths": {` + strings.Join(entries, ", ") + `}}`
}

// wrongPasswordMessage returns a password that every registry rejects.
func wrongPasswordMessage(user string) string { return canary.Marker + "wrong-" + user }

func (s *serviceAccountTest) addObjects(t *testing.T) {
	t.Helper()
	c := s.control
	c.AddNamespace(t, "team")
	c.AddServiceAccount(t, "team", "puller", nil)
	c.AddServiceAccount(t, "team", "other", nil)
	c.AddServiceAccount(t, "team", "named", map[string]string{usernameKey: "app-of-team"})
	c.AddPullSecret(t, "team", "host", "order.example", "secret", wrongPasswordMessage("secret"))
	c.AddPullSecret(t, "team", "path", "order.example/open", "secret-path", wrongPasswordMessage("secret-path"))
	for _, audience := range []string{"pass.example", "required.example", "optional.example", "sts.example", "echo.example", "order.example", "static.example"} {
		c.AllowAudience(t, audience)
	}
}

// tokenProvider returns a provider for one host. Its plugin returns the service account token as the
// password.
func tokenProvider(name, host string, more ...string) provider {
	return provider{
		name: name, version: "v1", images: []string{host}, args: append([]string{"--registry", host, "--audience", host}, more...),
		tokenAttributes: map[string]any{"serviceAccountTokenAudience": host, "cacheType": "Token", "requireServiceAccount": true},
	}
}

// withTokenAttribute sets a field of the provider's tokenAttributes and returns the provider.
func (p provider) withTokenAttribute(field string, value any) provider {
	p.tokenAttributes[field] = value
	return p
}

// writeConfig writes the kubelet's configuration.
func (s *serviceAccountTest) writeConfig(t *testing.T) (config, binDir string) {
	t.Helper()
	dir := t.TempDir()
	static := func(name, host, user, password string) provider {
		file := writeFile(t, filepath.Join(dir, name+".password"), password)
		return provider{name: name, version: "v1", images: []string{host}, args: []string{
			"--host", host, "--username", user, "--password-file", file, "--cache-duration", "0s",
		}}
	}
	asNamed := "--username={annotation:" + usernameKey + "}"
	tokens := []provider{
		tokenProvider("pass", "pass.example"),
		tokenProvider("required", "required.example", asNamed).withTokenAttribute("requiredServiceAccountAnnotationKeys", []string{usernameKey}),
		tokenProvider("optional", "optional.example", asNamed).withTokenAttribute("optionalServiceAccountAnnotationKeys", []string{usernameKey}),
		tokenProvider("exchange", "exchange.example", "--audience", "sts.example", "--username", "robot", "--exchange-url", s.sts.URL+"/token").
			withTokenAttribute("serviceAccountTokenAudience", "sts.example").withTokenAttribute("cacheType", "ServiceAccount"),
		tokenProvider("echo", "echo.example").withTokenAttribute("cacheType", "ServiceAccount"),
		tokenProvider("denied", "denied.example"),
		tokenProvider("order-token", "order.example"),
		tokenProvider("without", "static.example", "--optional").withTokenAttribute("requireServiceAccount", false),
	}
	statics := []provider{
		static("order-first", "order.example", "first", wrongPasswordMessage("first")), static("order-last", "order.example", "last", wrongPasswordMessage("last")),
		static("node", "static.example", "ci", canary.PasswordSecret),
	}
	list := append([]provider{statics[0]}, append(tokens, statics[1:]...)...)
	binDir = filepath.Join(dir, "bin")
	writeFile(t, filepath.Join(binDir, "README"), "")
	for _, p := range tokens {
		linkPluginAs(t, binDir, plugins.Token, p.name)
	}
	for _, p := range statics {
		linkPluginAs(t, binDir, plugins.Static, p.name)
	}
	return writeProviders(t, filepath.Join(dir, "config.yaml"), "v1", list...), binDir
}

// pullCase is a pod that pulls an image, and the expected result.
type pullCase struct {
	name    string
	account string // service account in namespace team
	secrets []string
	image   string // without the tag

	users         []string // users of the credentials, in order
	acceptedIndex int      // index of the accepted credential; -1 if all are rejected
	events        []string // texts in the event of a failing pod

	provider   string       // provider that returns no credentials
	log        string       // text that the kubelet logs about the provider, or ""
	skipReason string       // text in regcred's attempt if regcred skips the provider
	stage      plugin.Stage // stage at which regcred's attempt fails
	err        string       // text in the attempt's error
}

// pullCases lists pods that pull images. If a registry rejects a credential, neither its response
// nor the pod's event contains the reason. The event contains the reason only if regcred is
// embedded in the kubelet. Otherwise the reason is at best in the kubelet's log.
var pullCases = []pullCase{
	{name: "own identity", account: "puller", image: "pass.example/private/app", users: []string{"serviceaccount"}},
	{
		name: "another service account", account: "other", image: "pass.example/private/other",
		users: []string{"serviceaccount"}, acceptedIndex: -1, events: []string{"403 Forbidden"},
	},
	{name: "required annotation", account: "named", image: "required.example/open/app", users: []string{"app-of-team"}},
	{
		name: "required annotation missing", account: "puller", image: "required.example/open/missing",
		acceptedIndex: -1, events: []string{"401 Unauthorized"},
		provider: "required", skipReason: `service account team/puller lacks the required annotation "registry.example/user"`,
	},
	{name: "optional annotation", account: "named", image: "optional.example/open/app", users: []string{"app-of-team"}},
	{
		name: "optional annotation missing", account: "puller", image: "optional.example/open/missing",
		acceptedIndex: -1, events: []string{"401 Unauthorized"},
		provider: "optional", log: "the service account has no annotation ", stage: "exec", err: "the service account has no annotation ",
	},
	{name: "exchange", account: "puller", image: "exchange.example/open/app", users: []string{"robot"}},
	{
		name: "echoed token", account: "puller", image: "echo.example/open/app",
		acceptedIndex: -1, events: []string{"401 Unauthorized"},
		provider: "echo", log: "redential provider plugin returned the service account token as the password",
		stage: regcred.StageEchoedToken, err: "cacheType: Token",
	},
	{
		name: "all sources", account: "puller", secrets: []string{"host", "path"}, image: "order.example/open/app",
		users: []string{"secret-path", "secret", "node", "first", "serviceaccount", "last"}, acceptedIndex: 4,
	},
	{
		name: "longer keys", account: "other", secrets: []string{"host"}, image: "order.example/open/deep/app",
		users: []string{"secret", "node-deep", "node", "first", "serviceaccount", "last"}, acceptedIndex: 4,
	},
	{
		name: "none of them works", account: "other", secrets: []string{"path", "host"}, image: "order.example/private/app",
		users: []string{"secret", "node", "first", "serviceaccount", "last"}, acceptedIndex: -1, events: []string{"403 Forbidden", "401 Unauthorized"},
	},
}

// TestServiceAccounts verifies that pods pull with the identity of their service accounts. For each
// pod, regcred's keyring must return the credentials that the kubelet sent to the registry.
func TestServiceAccounts(t *testing.T) {
	node.SkipUnlessSupported(t)
	s := startServiceAccountTest(t)
	t.Run("pods", func(t *testing.T) {
		for _, c := range pullCases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s.testPull(t, c)
			})
		}
		t.Run("static pods", func(t *testing.T) { t.Parallel(); s.testStaticPod(t) })
		t.Run("calls", func(t *testing.T) { t.Parallel(); s.testCalls(t) })
		t.Run("permission", func(t *testing.T) { t.Parallel(); s.testPermission(t) })
		t.Run("refusals", func(t *testing.T) { t.Parallel(); s.testRefusals(t) })
	})
	canary.AssertAbsent(t, "the kubelet's log", strings.Join(s.kubelet.LogRecords(t), "\n"))
}

// newPod creates a pod in namespace team with an image that is new to the node.
func (s *serviceAccountTest) newPod(t *testing.T, name, account, host, repo string, secrets ...string) *corev1.Pod {
	t.Helper()
	pod := node.NewPod("team", name, s.guard.pushImage(t, host, repo))
	pod.Spec.ServiceAccountName = account
	for _, secret := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	return s.control.RunPod(t, s.kubelet, pod)
}

// withoutCacheType returns the expected result for kubelets without cacheType. They accept a plugin
// that returns the token.
func (c pullCase) withoutCacheType() pullCase {
	if c.stage == regcred.StageEchoedToken {
		return pullCase{name: c.name, account: c.account, image: c.image, users: []string{"serviceaccount"}}
	}
	return c
}

func (s *serviceAccountTest) testPull(t *testing.T, c pullCase) {
	if !node.FeatureCacheType.IsEnabled() {
		c = c.withoutCacheType()
	}
	if node.FeatureReportsToPods.IsEnabled() {
		c.log = c.err // the kubelet logs regcred's error
	}
	host, repo, _ := strings.Cut(c.image, "/")
	pod := s.newPod(t, strings.ReplaceAll(c.name, " ", "-"), c.account, host, repo, c.secrets...)
	if c.acceptedIndex < 0 {
		event := s.control.WaitEvent(t, pod, append([]string{"Failed: Failed to pull image", c.image + ":v1"}, c.events...)...)
		t.Log(event)
		c.checkEvent(t, event)
	} else {
		s.control.WaitRunning(t, pod)
	}
	f := s.ours.checkSameAsKubelet(t, s.guard, pod.Namespace, pod.Name, c.image+":v1", c.acceptedIndex)
	var users []string
	for _, l := range f.logins {
		users = append(users, l.User)
		token := fmt.Sprintf("token of system:serviceaccount:team:%s for [%s], bound to pod %s (%s)", c.account, host, pod.Name, pod.UID)
		if strings.HasPrefix(l.Secret, "token ") && l.Secret != token {
			t.Errorf("the password is the %s, want the %s", l.Secret, token)
		}
	}
	if diff := cmp.Diff(c.users, users); diff != "" {
		t.Errorf("the users of the credentials (-want +got)\n%s", diff)
	}
	s.checkRefusal(t, c, f)
}

// checkEvent checks that the event contains the reason if and only if the kubelet
// reports plugin errors to pods.
func (c pullCase) checkEvent(t *testing.T, event string) {
	t.Helper()
	if !node.FeatureReportsToPods.IsEnabled() {
		if strings.Contains(event, "account") || strings.Contains(event, "annotation") {
			t.Error("the event says more than the registry does: the documentation says otherwise")
		}
		return
	}
	_, reason, told := strings.Cut(event, "; image credential providers: ")
	if told != (c.provider != "") || !containsAll(reason, c.skipReason, c.err) {
		t.Errorf("the event's reason is %q, want %q %q", reason, c.skipReason, c.err)
	}
}

// checkRefusal checks that regcred and the kubelet's log report why a provider has no credentials.
// The kubelet runs with -v=5, because it logs skipped providers only at that level.
func (s *serviceAccountTest) checkRefusal(t *testing.T, c pullCase, f lookupResult) {
	t.Helper()
	failure := providerFailure(t, s.kubelet, node.FailureFilter{Provider: c.provider, Image: c.image})
	if (c.log == "") != (failure == "") || !strings.Contains(failure, c.log) {
		t.Errorf("the kubelet's log says of the provider %q, want %q in it", failure, c.log)
	}
	const skips = "Failed to get service account data"
	of := `image="` + c.image + `"`
	if !node.FeatureNamedFailures.IsEnabled() {
		of = skips + " team/" + c.account + ": " // these kubelets do not log the image
	}
	if got := len(s.kubelet.LogRecords(t, skips, "plugin.go", of)); (got > 0) != (c.skipReason != "") && (node.FeatureNamedFailures.IsEnabled() || got == 0) {
		t.Errorf("the kubelet's log has %d lines of %q", got, skips)
	}
	for _, a := range f.attempts {
		if a.Provider != c.provider {
			if a.Err != nil || a.Skipped != "" {
				t.Errorf("%s: %v %s", a.Provider, a.Err, a.Skipped)
			}
			continue
		}
		if a.Skipped != c.skipReason || a.Stage != c.stage || !strings.Contains(fmt.Sprint(a.Err), c.err) {
			t.Errorf("%s: skipped %q, stage %q, error %v; want %q, %q, %q", a.Provider, a.Skipped, a.Stage, a.Err, c.skipReason, c.stage, c.err)
		}
	}
}

// testStaticPod verifies static pods, which have no service account. The kubelet must skip a provider
// that requires one, and run the plugins of other providers without a token.
func (s *serviceAccountTest) testStaticPod(t *testing.T) {
	served := node.NewPod("team", "served", s.guard.pushImage(t, "static.example", "open/static"))
	skipped := node.NewPod("team", "skipped", s.guard.pushImage(t, "pass.example", "open/static"))
	s.kubelet.AddStaticPod(t, served)
	s.kubelet.AddStaticPod(t, skipped)
	t.Cleanup(func() { s.kubelet.RemoveStaticPod(t, served); s.kubelet.RemoveStaticPod(t, skipped) })
	s.kubelet.WaitStaticPodRunning(t, served)
	t.Log(s.kubelet.WaitStaticPodWaiting(t, skipped, "401 Unauthorized"))
	s.waitMirrorPods(t, "served-node", "skipped-node")

	f := s.ours.checkSameAsKubelet(t, s.guard, "team", "served-node", "static.example/open/static:v1", 0)
	if diff := cmp.Diff([]string{"without", "node"}, f.ran); diff != "" {
		t.Errorf("the plugins that ran (-want +got)\n%s", diff)
	}
	f = s.ours.checkSameAsKubelet(t, s.guard, "team", "skipped-node", "pass.example/open/static:v1", -1)
	const want = "the provider requires a service account, but the request has none"
	if got := f.attempts[len(f.attempts)-1].Skipped; got != want {
		t.Errorf("skipped: %q, want %q", got, want)
	}
}

// waitMirrorPods waits until the API server has the mirror pods of static pods.
func (s *serviceAccountTest) waitMirrorPods(t *testing.T, names ...string) {
	t.Helper()
	node.Eventually(t, time.Minute, func(ctx context.Context) error {
		for _, name := range names {
			if _, err := s.control.Client.CoreV1().Pods("team").Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// testCalls verifies the number of API requests for several pods of one service account.
func (s *serviceAccountTest) testCalls(t *testing.T) {
	const pods = 5
	s.control.AddServiceAccount(t, "team", "many", nil)
	var list []*corev1.Pod
	for i := range pods {
		list = append(list, s.newPod(t, fmt.Sprint("many-", i), "many", "exchange.example", fmt.Sprint("open/many-", i)))
	}
	for _, pod := range list {
		s.control.WaitRunning(t, pod)
	}
	want := pods
	if node.FeatureSharedTokens.IsEnabled() {
		want = 1
	}
	if got := s.countTokenRequests(t, "many"); got != want {
		t.Errorf("the kubelet made %d TokenRequests for %d pods of one service account, want %d", got, pods, want)
	}
	ofAccount := 1
	if !node.FeatureCacheType.IsEnabled() {
		ofAccount = pods // the plugin may return the pod's token, which is not shared
	}
	for _, tt := range []struct {
		cacheType, provider, image string
		want                       int
	}{
		{"ServiceAccount", "exchange", "exchange.example/open/many:v1", ofAccount},
		{"Token", "pass", "pass.example/open/many:v1", pods},
	} {
		before := s.countTokenRequests(t, "many")
		client := s.ours.newClient(t)
		keyring, ran := s.ours.newKeyring(t, client)
		for _, pod := range list {
			if f := lookUpCredential(t, client, keyring, ran, pod.Namespace, pod.Name, tt.image); len(f.logins) != 1 {
				t.Errorf("cacheType %s: %d credentials for pod %s, want 1", tt.cacheType, len(f.logins), pod.Name)
			}
		}
		if got := s.countTokenRequests(t, "many") - before; got != tt.want {
			t.Errorf("cacheType %s: %d TokenRequests for %d pods, want %d", tt.cacheType, got, pods, tt.want)
		}
		if got := ran.count(regcred.EventExec, tt.provider); got != tt.want {
			t.Errorf("cacheType %s: %d runs of the plugin for %d pods, want %d", tt.cacheType, got, pods, tt.want)
		}
	}
}

// countTokenRequests returns how many token requests by the node for a service account were successful.
func (s *serviceAccountTest) countTokenRequests(t *testing.T, account string) (n int) {
	t.Helper()
	for _, c := range s.control.AuditCalls(t, "system:node:node") {
		if c.Resource == "serviceaccounts/token" && c.Name == account && c.Code == http.StatusCreated {
			n++
		}
	}
	return n
}
