// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/pullsecret"
	"github.com/regcred/regcred/internal/pullsecret/manifest"
	"github.com/regcred/regcred/internal/pullsecret/pluginhost"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/upstream/helm"
	"github.com/regcred/regcred/upstream/node"
)

// chartValues returns the chart's values for the two configuration files.
func chartValues(t *testing.T, providers, pullSecrets string) string {
	t.Helper()
	var p, f map[string]any
	must.Do(t, yaml.Unmarshal([]byte(providers), &p))
	must.Do(t, yaml.Unmarshal([]byte(pullSecrets), &f))
	delete(f, "apiVersion")
	delete(f, "kind")
	path := filepath.Join(t.TempDir(), "values.yaml")
	must.Do(t, os.WriteFile(path, must.Get(yaml.Marshal(map[string]any{"config": p, "pullSecrets": f}))(t), 0o644))
	return path
}

// objects returns the roles and policies in YAML documents, by kind and the end of the name, without names and
// labels.
func objects(t *testing.T, text []byte) map[string]any {
	t.Helper()
	all := map[string]any{}
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var o unstructured.Unstructured
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		must.Do(t, err)
		if group := o.GroupVersionKind().Group; group != "rbac.authorization.k8s.io" && group != "admissionregistration.k8s.io" {
			continue
		}
		_, end, _ := strings.Cut(strings.TrimPrefix(o.GetName(), systemNamespace+"."), controllerName)
		key := o.GetKind() + end
		delete(o.Object, "metadata")
		unstructured.RemoveNestedField(o.Object, "roleRef", "name")
		unstructured.RemoveNestedField(o.Object, "spec", "policyName")
		all[key] = o.Object
	}
}

// TestChartMatchesManifests verifies that the chart's roles and policies are those that "regcred rbac"
// prints, which the other tests use.
func TestChartMatchesManifests(t *testing.T) {
	for name, tt := range map[string]struct{ providers, pullSecrets string }{
		"with accounts":    {strings.Replace(providers(""), "registry.example\n    cacheType", "it's\n    cacheType", 1), pullSecrets},
		"without accounts": {providers(""), strings.Replace(pullSecrets, "serviceAccounts: [app]", "secretName: other", 1)},
		"two labels":       {providers(""), strings.Replace(pullSecrets, "enabled}", "enabled, team: b}", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := helm.New(t, helmPath, "").Run(t, "template", controllerName, helm.PullSecretsChartDir(t), "--namespace", systemNamespace, "--values", chartValues(t, tt.providers, tt.pullSecrets))
			f := must.Get(pullsecret.Parse("f", []byte(tt.pullSecrets)))(t)
			c := must.Get(config.Parse("c", []byte(tt.providers)))(t)
			want := objects(t, must.Get(manifest.Render(f, c, manifest.Options{Namespace: systemNamespace, ServiceAccount: controllerName, Inject: true}))(t))
			if diff := cmp.Diff(want, objects(t, []byte(rendered))); diff != "" || len(want) < 8 {
				t.Errorf("%d objects: -manifests +chart\n%s", len(want), diff)
			}
		})
	}
}

// TestChart installs the chart with Helm, runs its containers' commands as the chart's service account,
// and uninstalls it.
func TestChart(t *testing.T) {
	node.SkipUnlessSupported(t)
	s := newScene(t)
	h := helm.New(t, helmPath, s.WriteKubeconfig(t, "admin", "system:masters"))
	must.Do(t, s.Client.CoreV1().ServiceAccounts(systemNamespace).Delete(t.Context(), controllerName, metav1.DeleteOptions{}))
	s.deleteManifests(t)
	h.Run(t, "install", controllerName, helm.PullSecretsChartDir(t), "--namespace", systemNamespace, "--values", chartValues(t, providers(""), pullSecrets))

	d := must.Get(s.Client.AppsV1().Deployments(systemNamespace).Get(t.Context(), controllerName, metav1.GetOptions{}))(t)
	t.Run("restricted", func(t *testing.T) {
		o := must.Get(s.Client.CoreV1().Namespaces().Get(t.Context(), systemNamespace, metav1.GetOptions{}))(t)
		o.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
		must.Get(s.Client.CoreV1().Namespaces().Update(t.Context(), o, metav1.UpdateOptions{}))(t)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-", Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
		if _, err := s.Client.CoreV1().Pods(systemNamespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
			t.Error(err)
		}
		pod.Spec.Containers[0].SecurityContext.Capabilities = nil
		if _, err := s.Client.CoreV1().Pods(systemNamespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{"All"}}); err == nil {
			t.Error("the standard is not enforced")
		}
	})
	t.Run("token", func(t *testing.T) {
		for _, c := range d.Spec.Template.Spec.Containers {
			mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "token" })
			if mounted != (c.Name == "controller") {
				t.Errorf("container %s: token mounted: %v", c.Name, mounted)
			}
		}
	})

	// The files of the ConfigMap, and the commands of the Deployment with other paths.
	m := must.Get(s.Client.CoreV1().ConfigMaps(systemNamespace).Get(t.Context(), controllerName+"-config", metav1.GetOptions{}))(t)
	for name, text := range m.Data {
		s.write(t, name, text)
	}
	replace := strings.NewReplacer("/config/", s.dir+"/", "/run/plugins/", s.dir+"/", "=/plugins", "="+s.dir+"/bin", ":8081", "127.0.0.1:8081", ":9477", "127.0.0.1:9477")
	for _, c := range d.Spec.Template.Spec.Containers {
		args := append(slices.Clone(c.Command[1:]), c.Args...)
		for i := range args {
			args[i] = replace.Replace(args[i])
		}
		if c.Name == "controller" {
			args = append(args, "--kubeconfig", s.proxyKubeconfig(t))
		}
		s.run(t, c.Name, args...)
	}
	s.addNamespace(t, "team")
	s.AddServiceAccount(t, "team", "app", nil)
	s.waitPassword(t, "team", secretName, "r.example", canary.PasswordSecret+"shared")
	s.waitPassword(t, "team", secretName+"-app", "r.example", canary.PasswordSecret+"account")
	t.Run("metrics and probes", func(t *testing.T) {
		for url, want := range map[string]string{
			"http://127.0.0.1:8081/healthz": "ok", "http://127.0.0.1:8081/readyz": "ok",
			"http://127.0.0.1:9477/metrics": `regcred_pull_secrets{state="current"} 2`,
		} {
			node.Eventually(t, 20*time.Second, func(ctx context.Context) error {
				out, err := exec.CommandContext(ctx, "curl", "-sf", url).Output()
				if err != nil || !strings.Contains(string(out), want) {
					return fmt.Errorf("%s: %v: no %s in\n%s", url, err, want, out)
				}
				canary.AssertAbsent(t, "the metrics", string(out))
				return nil
			})
		}
	})

	h.Run(t, "uninstall", controllerName, "--namespace", systemNamespace)
	if policies := must.Get(s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{}))(t); len(policies.Items) > 0 {
		t.Errorf("%d policies remain", len(policies.Items))
	}
	if roles := must.Get(s.Client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=regcred-pull-secrets"}))(t); len(roles.Items) > 0 {
		t.Errorf("%d roles remain", len(roles.Items))
	}
}

// deleteManifests deletes what applyManifests applied.
func (s *scene) deleteManifests(t *testing.T) {
	t.Helper()
	none := metav1.DeleteOptions{}
	for _, name := range []string{"-secrets", "-tokens"} {
		must.Do(t, s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), controllerName+name, none))
		must.Do(t, s.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), controllerName+name, none))
	}
	must.Do(t, s.Client.AdmissionregistrationV1().MutatingAdmissionPolicies().Delete(t.Context(), controllerName+"-pods", none))
	must.Do(t, s.Client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Delete(t.Context(), controllerName+"-pods", none))
	must.Do(t, s.Client.RbacV1().ClusterRoleBindings().Delete(t.Context(), controllerName, none))
	must.Do(t, s.Client.RbacV1().ClusterRoles().Delete(t.Context(), controllerName, none))
	must.Do(t, s.Client.RbacV1().RoleBindings(systemNamespace).Delete(t.Context(), controllerName, none))
	must.Do(t, s.Client.RbacV1().Roles(systemNamespace).Delete(t.Context(), controllerName, none))
}

// TestPluginHost verifies the socket between the two containers with a real plugin.
func TestPluginHost(t *testing.T) {
	node.SkipUnlessSupported(t)
	s := &scene{dir: t.TempDir()}
	s.write(t, "providers.yaml", providers(""))
	must.Do(t, os.Chmod(s.write(t, "bin/shared", strings.ReplaceAll(script, "DIR", s.dir)), 0o755))
	s.respond(t, "shared", canary.PasswordSecret, time.Hour)
	socket := filepath.Join(s.dir, "socket")
	s.run(t, "plugins", "plugins", "--config", filepath.Join(s.dir, "providers.yaml"), "--bin-dir", filepath.Join(s.dir, "bin"), "--plugin-socket", socket)
	req := &plugin.Request{Image: "r.example/app", ServiceAccountToken: plugin.NewSecret(canary.TokenSecret), ServiceAccountAnnotations: map[string]string{"a": "b"}}
	shared := pluginhost.Client{Socket: socket}.Provider("shared")
	node.Eventually(t, 20*time.Second, func(ctx context.Context) error {
		resp, err := shared.GetCredentials(ctx, req)
		if err == nil && resp.Auth["*.example"].Password.Reveal() != canary.PasswordSecret {
			err = errors.New("another password")
		}
		return err
	})
	if got := s.requests(t, "shared"); !strings.Contains(got[0], canary.TokenSecret) || !strings.Contains(got[0], `"a":"b"`) || !strings.Contains(got[0], "r.example/app") {
		t.Error("the plugin's request lacks a field")
	}
	s.fail(t, "shared", true)
	_, err := shared.GetCredentials(t.Context(), req)
	failed, ok := errors.AsType[*plugin.ExecError](err)
	if !ok || failed.Stage != plugin.StageExec || failed.ExitCode != 1 || !strings.Contains(failed.Stderr, "cloud down") {
		t.Errorf("%v", err)
	}
	if _, err := (pluginhost.Client{Socket: socket}).Provider("../shared").GetCredentials(t.Context(), req); err == nil {
		t.Error("a provider that is not configured was run")
	}
}
