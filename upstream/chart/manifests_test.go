// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/helm"
)

const manifestsHeading = `# SPDX-License-Identifier: Apache-2.0
# Copyright The regcred Authors
#
# Made by: helm template regcred deploy/chart --namespace regcred --values deploy/manifests/values.yaml --no-hooks
`

// TestManifests verifies that regcred.yaml equals Helm's output. With -update, it writes the file.
func TestManifests(t *testing.T) {
	dir := filepath.Join(repositoryRoot(t), "deploy", "manifests")
	rendered := helm.New(t, program, "").Run(t, "template", release, helm.ChartDir(t), "--namespace", namespace,
		"--values", filepath.Join(dir, "values.yaml"), "--no-hooks")
	path, want := filepath.Join(dir, "regcred.yaml"), manifestsHeading+rendered
	if *update {
		must.Do(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	got := must.Get(os.ReadFile(path))(t)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("go test ./chart -run %s -args -update (-want +got):\n%s", t.Name(), diff)
	}
	for key := range decodeObjects(t, rendered) {
		if strings.Contains(key, "uninstall") {
			t.Errorf("%s: a hook has no meaning to kubectl", key)
		}
	}
}

// TestKustomization verifies that the base consists of exactly the listed files.
func TestKustomization(t *testing.T) {
	dir := filepath.Join(repositoryRoot(t), "deploy", "manifests")
	data := must.Get(os.ReadFile(filepath.Join(dir, "kustomization.yaml")))(t)
	var got struct {
		APIVersion, Kind string
		Resources        []string
	}
	must.Do(t, yaml.UnmarshalStrict(data, &got))
	want := got
	want.APIVersion, want.Kind, want.Resources = "kustomize.config.k8s.io/v1beta1", "Kustomization", []string{"namespace.yaml", "regcred.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
