// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/helm"
	"github.com/regcred/regcred/upstream/node"
)

var update = flag.Bool("update", false, "write what is generated")

// program is the path of the helm executable.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if program, err = helm.BuildHelm(""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	node.Main(m)
}

// values holds the values of the chart. As changes of other values, its keys are paths such as
// "a.b".
type values map[string]any

// withValues returns the values of an example, with changes.
func withValues(changes values) values {
	v := values{"mode": "Install", "config": map[string]any{"providers": []any{providerValues("registry.example")}}}
	for path, value := range changes {
		at := map[string]any(v)
		keys := strings.Split(path, ".")
		for _, key := range keys[:len(keys)-1] {
			next, ok := at[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[key] = next
			}
			at = next
		}
		at[keys[len(keys)-1]] = value
	}
	return v
}

// providerValues returns the values of a provider for an image. changes lists keys and their
// values.
func providerValues(image string, changes ...any) map[string]any {
	p := map[string]any{
		"name": "static-credential-provider", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
		"matchImages": []any{image}, "defaultCacheDuration": "1m",
	}
	for i := 0; i < len(changes); i += 2 {
		p[changes[i].(string)] = changes[i+1]
	}
	return p
}

// writeFile writes the values to a file and returns a --values flag with its path.
func (v values) writeFile(t testing.TB) string {
	t.Helper()
	data := must.Get(yaml.Marshal(v))(t)
	name := filepath.Join(t.TempDir(), "values.yaml")
	must.Do(t, os.WriteFile(name, data, 0o600))
	return "--values=" + name
}

// repositoryRoot returns the root of the working tree.
func repositoryRoot(t testing.TB) string { return filepath.Dir(filepath.Dir(helm.ChartDir(t))) }

const release, namespace = "regcred", "regcred"

// renderChart returns the output of helm template for these values.
func renderChart(t testing.TB, v values, args ...string) string {
	t.Helper()
	return helm.New(t, program, "").Run(t, append([]string{"template", release, helm.ChartDir(t), "--namespace", namespace, v.writeFile(t)}, args...)...)
}

// decodeObjects decodes the rendered objects and returns them by KIND/NAME. An unknown field is an error.
func decodeObjects(t testing.TB, rendered string) map[string]runtime.Object {
	t.Helper()
	all := map[string]runtime.Object{}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, doc := range splitDocuments(t, rendered) {
		object, kind, err := decoder.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		name := object.(interface{ GetName() string }).GetName()
		key := kind.Kind + "/" + name
		if all[key] != nil {
			t.Fatalf("%s is rendered twice", key)
		}
		all[key] = object
	}
	if len(all) == 0 {
		t.Fatal("nothing is rendered")
	}
	return all
}

func splitDocuments(t testing.TB, rendered string) (docs [][]byte) {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(rendered)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimSpace(doc)) > 0 {
			docs = append(docs, doc)
		}
	}
}

// requireObject returns the object with the key KIND/NAME.
func requireObject[T runtime.Object](t testing.TB, all map[string]runtime.Object, key string) T {
	t.Helper()
	object, ok := all[key].(T)
	if !ok {
		t.Fatalf("there is no %s among %d objects", key, len(all))
	}
	return object
}

func renderDaemonSet(t testing.TB, v values) *appsv1.DaemonSet {
	t.Helper()
	return requireObject[*appsv1.DaemonSet](t, decodeObjects(t, renderChart(t, v)), "DaemonSet/"+release)
}
