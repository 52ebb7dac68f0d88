// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/dockerconfig"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint/pullsecret"
)

// DockerConfigPaths returns the directories in which the kubelet described by o looks for
// docker config files.
func DockerConfigPaths(o *node.Origin) regcred.NodePaths {
	return regcred.NodePaths{RootDir: o.RootDir, WorkDir: o.Dir, Home: node.Getenv(o.Environ, "HOME")}
}

// maxDockerConfigSize limits the size of a docker config file, in bytes.
const maxDockerConfigSize = 16 << 20

// checkDockerConfig checks the docker config files that the node's kubelet reads. It reports
// no errors, because the kubelet ignores files that it cannot use.
func checkDockerConfig(ctx context.Context, w *Input, r *checkResults) {
	o := w.dockerConfigOrigin()
	if own := nodeKubeletOrigin(ctx, w.Node, o); own != nil {
		o = own
	}
	checkHome(ctx, r, w.Node, o)
	sets, err := regcred.NodeDockerConfig(DockerConfigPaths(o)).Auths(ctx, "registry.example")
	for _, e := range terminal.FlattenErrors(err) {
		fix := "fix or remove it"
		if errors.Is(e, fs.ErrPermission) {
			fix = "run this command as root (sudo)"
		}
		f := finding.Finding{Severity: finding.SeverityWarning, Message: e.Error(), Fix: fix}
		if p, ok := errors.AsType[*dockerjson.Problem](e); ok {
			f.File, f.Line, f.Column, f.Path = strings.TrimSuffix(f.Message, ": "+p.Error()), p.Line, p.Column, p.Path
			f.Message, f.Fix = p.Msg, cmp.Or(p.Fix, fix)
		}
		if errors.Is(e, regularfile.ErrLimit) {
			f.Message += "; regcred does not read it, but the kubelet does"
		} else {
			f.Message += "; the kubelet silently ignores it"
		}
		r.addFinding(f)
	}
	for _, s := range sets {
		checkDockerFile(ctx, r, s.Origin.File)
	}
	if len(sets) > 0 {
		return
	}
	if err == nil {
		looked := ""
		if !o.HasKubeletEnvironment() { // only a kubelet has standard directories
			looked = ": none of " + strings.Join(DockerConfigPaths(o).Files(), ", ")
		}
		r.addResult(finding.SeverityOK, "", "the node has no docker config file%s", looked)
	}
	checkStrayDockerFiles(ctx, r, o)
}

// nodeKubeletOrigin returns the origin for the kubelet that runs on this node or that its
// service will start. The kubelet's HOME determines where it looks for docker configs.
// nodeKubeletOrigin returns nil if there is no kubelet, or if o already describes one.
func nodeKubeletOrigin(ctx context.Context, n *node.Reader, o *node.Origin) *node.Origin {
	if o.HasKubeletEnvironment() {
		return nil
	}
	w := node.FindOptions{AsKubelet: "auto", AllowNone: true, Dir: o.Dir}
	if o.RootDir != node.DefaultRootDir {
		w.RootDir = o.RootDir // set by a flag
	}
	k, err := n.Find(ctx, w)
	if err != nil {
		return nil
	}
	return k
}

// checkHome reports a kubelet whose HOME is not an absolute path.
func checkHome(ctx context.Context, r *checkResults, n *node.Reader, o *node.Origin) {
	home := DockerConfigPaths(o).Home
	if !o.HasKubeletEnvironment() || home == "" {
		return
	}
	meant := strings.TrimSpace(home)
	why := "begins or ends with whitespace"
	switch {
	case meant != home:
	case strings.HasPrefix(home, "/"):
		return
	default:
		why, meant = "is not an absolute path; ~ and $ are not expanded", "/root"
	}
	f := finding.Finding{Severity: finding.SeverityWarning}
	if g, ok := n.EnvVariable(ctx, "HOME"); ok && g.Value == home {
		f.File, f.Line = g.File, g.Line
	}
	at := filepath.Join(home, ".docker", "config.json")
	if !filepath.IsAbs(at) {
		at = filepath.Join(o.Dir, at)
	}
	f.Message = fmt.Sprintf("the kubelet's HOME %q %s, so the kubelet looks for credentials in %q", home, why, at)
	f.Fix = fmt.Sprintf("set Environment=HOME=%s, or put the credentials into %s", strings.TrimSuffix(meant, "/"), DockerConfigPaths(o).Files()[0])
	r.addFinding(f)
}

// DockerConfigFindings returns the linter's findings about a docker config file on the node,
// or nil if the file cannot be read.
func DockerConfigFindings(ctx context.Context, path string, now time.Time) *pullsecret.Result {
	return readDockerConfig(ctx, path, maxDockerConfigSize, now)
}

func readDockerConfig(ctx context.Context, path string, maxSize int64, now time.Time) *pullsecret.Result {
	data, err := regularfile.Read(ctx, path, maxSize)
	if err != nil {
		return nil
	}
	kind := pullsecret.DockerConfig
	if filepath.Base(path) == ".dockercfg" {
		kind = pullsecret.Dockercfg
	}
	found := pullsecret.CheckAs(kind, path, data, now)
	// A process may renew the credentials in the file, so do not report that they expire.
	found.Findings = slices.DeleteFunc(found.Findings, func(f finding.Finding) bool {
		return f.Severity == finding.SeverityInfo || f.Rule == "docker-password-ends"
	})
	return found
}

// checkDockerFile checks a docker config file that the kubelet reads.
func checkDockerFile(ctx context.Context, r *checkResults, path string) {
	found := DockerConfigFindings(ctx, path, time.Now())
	if found == nil {
		return
	}
	r.addResult(finding.SeverityOK, "", "%s: %s", path, CredentialCountText(found.Credentials))
	for _, f := range r.filterFindings(&config.Config{}, found.Findings) {
		f.Severity, f.Fix = finding.SeverityWarning, report.FindingFix(f)
		r.addFinding(f)
	}
}

// CredentialCountText describes how many registries have a credential.
func CredentialCountText(n int) string {
	switch n {
	case 0:
		return "no credentials"
	case 1:
		return "a credential for 1 registry"
	}
	return fmt.Sprintf("credentials for %d registries", n)
}

// Limits of the search in home directories.
const (
	maxHomeDirs       = 200
	maxHomeConfigSize = 1 << 20 // bytes
	maxStrayFiles     = 5       // files to report
	strayTimeout      = 2 * time.Second
)

// checkStrayDockerFiles reports credentials that docker login stored in a home
// directory where the kubelet described by o does not look.
func checkStrayDockerFiles(ctx context.Context, r *checkResults, o *node.Origin) {
	paths := DockerConfigPaths(o).Files()
	ctx, cancel := context.WithTimeout(ctx, strayTimeout)
	defer cancel()
	// A home directory may be on a file server that does not respond.
	stray, err := await.Call(ctx, "search home directories", func() ([]string, error) {
		return findDockerConfigs(ctx, append(homeDirs("/"), DockerConfigPaths(o).RootDir), paths), nil
	})
	if err != nil {
		return
	}
	result, why := finding.SeverityInfo, "the kubelet reads this file only if its HOME is set to that home directory"
	if o.HasKubeletEnvironment() {
		why = "the kubelet does not read this file, because HOME is not set (as usual for a systemd service)"
		if home := DockerConfigPaths(o).Home; home != "" {
			why = fmt.Sprintf("the kubelet does not read this file, because its HOME is %q", home)
		}
		if o.NoProviders != nil {
			result = finding.SeverityWarning // with providers, the file is probably not meant for the kubelet
		}
	}
	for _, path := range stray {
		r.addResult(result, fmt.Sprintf("if this node's pulls need these credentials, put them in %s and make that file readable only by root", paths[0]), "%s has credentials; %s", path, why)
	}
}

// homeDirs returns the usual home directories below a root directory.
func homeDirs(root string) []string {
	list := []string{filepath.Join(root, "root")}
	homes, _ := os.ReadDir(filepath.Join(root, "home"))
	for _, e := range homes[:min(len(homes), maxHomeDirs)] {
		list = append(list, filepath.Join(root, "home", e.Name()))
	}
	return list
}

// findDockerConfigs returns the docker configs in home directories that contain credentials.
// It omits the files in known.
func findDockerConfigs(ctx context.Context, homes, known []string) (list []string) {
	for _, home := range homes {
		for _, name := range []string{".docker/config.json", ".dockercfg"} {
			path := filepath.Join(home, name)
			if len(list) == maxStrayFiles || slices.ContainsFunc(known, func(p string) bool { return isSamePath(p, path) }) {
				continue
			}
			if found := readDockerConfig(ctx, path, maxHomeConfigSize, time.Now()); found != nil && found.Credentials > 0 {
				list = append(list, path)
			}
		}
	}
	return list
}

// SecretIgnoredReason returns why the kubelet silently ignores a secret, or "" if it is a pull
// secret.
func SecretIgnoredReason(s *regcred.PullSecret) string {
	key, ok := map[string]string{dockerjson.SecretTypeConfigJSON: dockerjson.SecretKeyConfigJSON, dockerjson.SecretTypeDockercfg: dockerjson.SecretKeyDockercfg}[s.Type]
	switch {
	case !ok:
		return fmt.Sprintf("of %s, which the kubelet does not accept as a pull secret (use %s)", excerpt.DescribeSecretType(s.Type), dockerjson.SecretTypeConfigJSON)
	case len(s.Data[key]) == 0:
		names := slices.Sorted(maps.Keys(s.Data))
		for i, name := range names {
			names[i] = strings.Trim(excerpt.QuoteSecretKey(name), `"`)
		}
		keys := strings.Join(names, ", ")
		return fmt.Sprintf("of type %s that has no data under %q (its keys: %s)", s.Type, key, cmp.Or(keys, "none"))
	}
	return ""
}

// parseSecret decodes a pull secret, and returns the error with which the kubelet would
// reject it.
func parseSecret(s *regcred.PullSecret) error {
	key, format := dockerjson.SecretKeyConfigJSON, dockerconfig.ConfigJSON
	if s.Type == dockerjson.SecretTypeDockercfg {
		key, format = dockerjson.SecretKeyDockercfg, dockerconfig.DockerCfg
	}
	_, err := dockerconfig.Parse(s.Data[key], format)
	return err
}

// SecretFindings returns the linter's findings about a pull secret. It returns nil if the
// kubelet ignores the secret or regcred cannot decode it, because [SecretIgnoredReason] and lookups report
// that.
func SecretFindings(s *regcred.PullSecret, now time.Time) []finding.Finding {
	found := pullsecret.CheckSecret(pullsecret.Secret{Namespace: s.Namespace, Name: s.Name, Type: s.Type, Data: s.Data}, now)
	if found.Rejected || found.Unchecked != nil {
		return nil
	}
	return slices.DeleteFunc(found.Findings, func(f finding.Finding) bool { return f.Rule == "secret-type" })
}
