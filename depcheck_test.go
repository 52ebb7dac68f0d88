// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/must"
)

const module = "github.com/regcred/regcred"

// allowedModules lists the third-party modules that a program gets if it uses a package of this
// module. Each new module must be added to docs/project/dependencies.md.
var allowedModules = map[string][]string{
	"./match":        {},
	"./plugin":       {"sigs.k8s.io/json"},
	"./dockerconfig": {"sigs.k8s.io/json"}, // it returns plugin.AuthConfig
	"./config":       rootModules,
	"./lint":         rootModules,
	".":              rootModules,

	"./keychain/cloud":      rootModules,
	"./keychain":            adapterModules,
	"./keychain/orasclient": append([]string{"oras.land/oras-go/v2", "github.com/opencontainers/image-spec"}, adapterModules...),

	"./cmd/ecr-credential-provider": {
		"sigs.k8s.io/json", "github.com/spf13/pflag",
		"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go",
	},
	"./cmd/acr-credential-provider": {
		"sigs.k8s.io/json", "github.com/spf13/pflag",
		"sigs.k8s.io/yaml", "go.yaml.in/yaml/v2",
	},
	"./cmd/token-credential-provider":        append([]string{"github.com/spf13/pflag"}, rootModules...),
	"./cmd/auth-provider-gcp":                {"sigs.k8s.io/json", "github.com/spf13/pflag"},
	"./cmd/docker-credential-regcred":        append([]string{"github.com/docker/docker-credential-helpers/credentials", "golang.org/x/sys/unix"}, rootModules...),
	"./cmd/dockerconfig-credential-provider": {"sigs.k8s.io/json", "github.com/spf13/pflag"},
	"./cmd/regcred-credential-provider":      append([]string{"github.com/spf13/pflag", "golang.org/x/sys/unix"}, rootModules...),
	"./cmd/static-credential-provider":       {"sigs.k8s.io/json", "github.com/spf13/pflag"},
}

// rootModules lists the modules that the root package may import.
var rootModules = []string{
	"sigs.k8s.io/json",
	"sigs.k8s.io/yaml", "go.yaml.in/yaml/v2",
	"go.yaml.in/yaml/v3",
	"golang.org/x/sync",
}

// adapterModules lists the modules that the go-containerregistry adapter may import.
var adapterModules = append([]string{
	"github.com/google/go-containerregistry",
	"github.com/docker/cli", "github.com/docker/docker-credential-helpers", "github.com/opencontainers/go-digest",
	"github.com/sirupsen/logrus", "golang.org/x/sys",
}, rootModules...)

// TestDependencies verifies that the public packages depend only on the listed modules, on
// every operating system.
func TestDependencies(t *testing.T) {
	for pkg, modules := range allowedModules {
		for _, goos := range []string{"linux", "darwin", "windows"} {
			deps := goList(t, goos, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg)
			for _, dep := range deps {
				if !inModules(dep, append(modules, module)) {
					t.Errorf("%s on %s is built from %s", pkg, goos, dep)
				}
			}
			if len(modules) > 0 && !slices.Contains(deps, "sigs.k8s.io/json") {
				t.Errorf("%s on %s: %q: the list does not contain its dependencies", pkg, goos, deps)
			}
		}
	}
}

// TestEachCloudLinksOnlyItself verifies that a program with keychain/cloud links only the SDKs
// of the clouds that it uses, and that keychain/cloud itself links none.
func TestEachCloudLinksOnlyItself(t *testing.T) {
	clouds := map[string][]string{
		"ecr": {module + "/provider/ecr", "github.com/aws"},
		"gcr": {module + "/provider/gcr", "cloud.google.com", "golang.org/x/oauth2", "google.golang.org"},
		"acr": {module + "/provider/acr", "github.com/Azure", "github.com/AzureAD"},
	}
	for _, named := range []string{"", "ecr", "gcr", "acr"} {
		args := []string{"-deps", "-f", "{{.ImportPath}}", "./keychain/cloud"}
		if named != "" {
			args = append(args, "./provider/"+named)
		}
		deps := goList(t, "linux", args...)
		for cloud, packages := range clouds {
			linked := slices.IndexFunc(deps, func(dep string) bool { return inModules(dep, packages) })
			if (linked >= 0) != (cloud == named) {
				t.Errorf("a program with %q: %q linked at %d of %d packages", named, packages, linked, len(deps))
			}
		}
	}
}

// kubernetesImporters lists the packages that may import Kubernetes modules, and the modules that each
// of them may import.
var kubernetesImporters = map[string][]string{
	"kube":                {"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"},
	"internal/apiserver":  {"k8s.io/apimachinery", "k8s.io/client-go"},
	"internal/kubeconfig": {"k8s.io/client-go"},
	"internal/fleet":      {"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/component-helpers"},
	"internal/testkube":   {"k8s.io/api", "k8s.io/apimachinery"},
	"internal/pull":       {"k8s.io/cri-api"},
	"internal/pullsecret": {"k8s.io/apimachinery"},

	"internal/pullsecret/controller": {"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"},
	"cmd/regcred-controller":         {"k8s.io/client-go"},
	"internal/testcri":               {"k8s.io/cri-api"},
	"cmd/regcred":                    {"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/cri-api"}, // k8s.io/cri-api only in tests
}

// TestKubernetes verifies that only upstream/, a separate module, imports k8s.io/kubernetes. It
// also verifies that only the packages in kubernetes import Kubernetes client libraries.
func TestKubernetes(t *testing.T) {
	imports := goList(t, "linux", "-f", "{{$p := .ImportPath}}{{range .Imports}}{{$p}}={{.}} {{end}}{{range .TestImports}}{{$p}}={{.}} {{end}}{{range .XTestImports}}{{$p}}={{.}} {{end}}", "./...")
	used := map[string]bool{}
	for _, line := range imports {
		pkg, dep, _ := strings.Cut(line, "=")
		pkg = strings.TrimPrefix(pkg, module+"/")
		if inModules(dep, []string{"sigs.k8s.io/controller-runtime"}) && pkg != "internal/pullsecret/controller" {
			t.Errorf("%s imports %s", pkg, dep)
		}
		if !strings.HasPrefix(dep, "k8s.io/") {
			continue
		}
		if !inModules(dep, kubernetesImporters[pkg]) {
			t.Errorf("%s imports %s", pkg, dep)
		}
		used[pkg] = true
	}
	for pkg := range kubernetesImporters {
		if !used[pkg] {
			t.Errorf("%s imports nothing of Kubernetes: the list does not contain the module, or of no use", pkg)
		}
	}
	for _, dep := range goList(t, "linux", "-deps", "-test", "-f", "{{.ImportPath}}", "./...") {
		if inModules(dep, []string{"k8s.io/kubernetes"}) {
			t.Errorf("built from %s", dep)
		}
	}
}

// TestDependenciesAreExplained verifies that docs/project/dependencies.md has exactly one row
// for each direct dependency in go.mod.
func TestDependenciesAreExplained(t *testing.T) {
	doc := must.Get(os.ReadFile("docs/project/dependencies.md"))(t)
	modules, _, found := strings.Cut(string(doc), "\n| package |")
	if !found {
		t.Fatal("the table of packages is missing")
	}
	var explained []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]*/[^`]*)`").FindAllStringSubmatch(modules, -1) {
		explained = append(explained, row[1])
	}
	slices.Sort(explained)
	if diff := cmp.Diff(directDependencies(t), explained); diff != "" {
		t.Errorf("go.mod against docs/project/dependencies.md (-required +explained):\n%s", diff)
	}
}

// directDependencies returns the direct dependencies in go.mod, sorted.
func directDependencies(t *testing.T) []string {
	t.Helper()
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	must.Do(t, json.Unmarshal(goCommand(t, "linux", "mod", "edit", "-json"), &file))
	var paths []string
	for _, r := range file.Require {
		if !r.Indirect {
			paths = append(paths, r.Path)
		}
	}
	slices.Sort(paths)
	return paths
}

// inModules reports whether a package belongs to one of the modules.
func inModules(pkg string, modules []string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return pkg == m || strings.HasPrefix(pkg, m+"/") })
}

// goList runs "go list" for an operating system and returns the fields of its output.
func goList(t *testing.T, goos string, args ...string) []string {
	t.Helper()
	return strings.Fields(string(goCommand(t, goos, append([]string{"list"}, args...)...)))
}

// goCommand runs the go command for an operating system.
func goCommand(t *testing.T, goos string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOFLAGS=-mod=readonly")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %q: %v\n%s", args, err, stderr.String())
	}
	return out
}
