// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint/pullsecret"
)

// DockerPaths are the directories in which the kubelet of o looks for docker
// config files.
func DockerPaths(o *node.Origin) regcred.NodePaths {
	return regcred.NodePaths{RootDir: o.RootDir, WorkDir: o.Dir, Home: node.Getenv(o.Environ, "HOME")}
}

// maxDockerConfig bounds a docker config file, in bytes.
const maxDockerConfig = 16 << 20

// checkDockerConfig reads the node's docker config files, those of this node's own
// kubelet if it is known. A kubelet passes over what it cannot use, so a pull need
// not fail for want of it.
func (r *Report) checkDockerConfig(ctx context.Context, k *Kubelet) {
	o := k.Files()
	if own := ownKubelet(ctx, k.Node, o); own != nil {
		o = own
	}
	r.checkHome(ctx, k.Node, o)
	sets, err := regcred.NodeDockerConfig(DockerPaths(o)).Auths(ctx, "registry.example")
	for _, e := range terminal.Flatten(err) {
		fix := "fix or remove it"
		if errors.Is(e, fs.ErrPermission) {
			fix = "run this command as root (sudo)"
		}
		text := e.Error()
		if p, ok := errors.AsType[*dockerjson.Problem](e); ok {
			path := strings.TrimSuffix(text, ": "+p.Error())
			at := &config.FieldError{File: path, Line: p.Line, Column: p.Column, Path: p.Path, Msg: p.Msg}
			text, fix = at.Error(), cmp.Or(p.Fix, fix)
		}
		r.Add("docker-config", Warn, fix, "%s; the kubelet silently ignores it", text)
	}
	for _, s := range sets {
		r.checkDockerFile(ctx, s.Origin.File)
	}
	if len(sets) > 0 {
		return
	}
	if err == nil {
		looked := ""
		if !o.OfKubelet() { // else the places are known, and no news
			looked = ": none of " + strings.Join(DockerPaths(o).Files(), ", ")
		}
		r.Add("docker-config", OK, "", "the node has no docker config file%s", looked)
	}
	r.checkStrayDockerFiles(ctx, o)
}

// ownKubelet is the kubelet that runs on this node, or that its service starts
// next; nil if there is none, it cannot be looked at, or o is one. Where it looks
// for docker config files goes by its HOME and not by the caller's.
func ownKubelet(ctx context.Context, n *node.Reading, o *node.Origin) *node.Origin {
	if o.OfKubelet() {
		return nil
	}
	w := node.Want{AsKubelet: "auto", OrNone: true, Dir: o.Dir}
	if o.RootDir != node.DefaultRootDir {
		w.RootDir = o.RootDir // it was given
	}
	k, err := n.Find(ctx, w)
	if err != nil {
		return nil
	}
	return k
}

// checkHome tells of a HOME of the kubelet under which nobody puts anything.
func (r *Report) checkHome(ctx context.Context, n *node.Reading, o *node.Origin) {
	home := DockerPaths(o).Home
	if !o.OfKubelet() || home == "" {
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
	where := ""
	if g, ok := n.Variable(ctx, "HOME"); ok && g.Value == home {
		where = fmt.Sprintf("%s:%d: ", g.File, g.Line)
	}
	at := filepath.Join(home, ".docker", "config.json")
	if !filepath.IsAbs(at) {
		at = filepath.Join(o.Dir, at)
	}
	r.Add("docker-config", Warn, fmt.Sprintf("set Environment=HOME=%s, or put the credentials into %s", strings.TrimSuffix(meant, "/"), DockerPaths(o).Files()[0]),
		"%sthe kubelet's HOME %q %s: the kubelet looks for credentials in %q", where, home, why, at)
}

// DockerFindings are the linter's about the node's docker config file at a path, as
// far as they matter there; nil if it is gone.
func DockerFindings(ctx context.Context, path string, now time.Time) *pullsecret.Result {
	data, err := regularfile.Read(ctx, path, maxDockerConfig)
	if err != nil {
		return nil
	}
	kind := pullsecret.DockerConfig
	if filepath.Base(path) == ".dockercfg" {
		kind = pullsecret.Dockercfg
	}
	found := pullsecret.CheckAs(kind, path, data, now)
	// What renews a node's file cannot be seen here.
	found.Findings = slices.DeleteFunc(found.Findings, func(f finding.Finding) bool {
		return f.Severity == finding.SeverityInfo || f.Rule == "docker-password-ends"
	})
	return found
}

// checkDockerFile tells of the file that the kubelet reads.
func (r *Report) checkDockerFile(ctx context.Context, path string) {
	found := DockerFindings(ctx, path, time.Now())
	if found == nil {
		return
	}
	r.Add("docker-config", OK, "", "%s: %s", path, Logins(found.Credentials))
	for _, f := range r.selected(&config.Config{}, found.Findings) {
		r.Add("docker-config", Warn, report.Fix(f), "%s", f.String())
	}
}

// Logins says for how many registries there are logins.
func Logins(n int) string {
	switch n {
	case 0:
		return "no credentials"
	case 1:
		return "a credential for 1 registry"
	}
	return fmt.Sprintf("credentials for %d registries", n)
}

// Bounds of the search for logins in homes.
const (
	maxHomes      = 200
	maxHomeConfig = 1 << 20 // bytes
	maxStray      = 5       // that are told of
	strayPatience = 2 * time.Second
)

// checkStrayDockerFiles tells of logins that docker login put into somebody's home,
// where the kubelet of o does not look. It has no other.
func (r *Report) checkStrayDockerFiles(ctx context.Context, o *node.Origin) {
	paths := DockerPaths(o).Files()
	ctx, cancel := context.WithTimeout(ctx, strayPatience)
	defer cancel()
	// A home may be on a server that is away.
	stray, err := await.Result(ctx, "search home directories", func() ([]string, error) {
		return dockerLogins(ctx, append(homes("/"), DockerPaths(o).RootDir), paths), nil
	})
	if err != nil {
		return
	}
	result, why := Info, "the kubelet reads this file only if its HOME is set to that home directory"
	if o.OfKubelet() {
		why = "the kubelet does not read this file, because HOME is not set (as usual for a systemd service)"
		if home := DockerPaths(o).Home; home != "" {
			why = fmt.Sprintf("the kubelet does not read this file, because its HOME is %q", home)
		}
		if o.Without != nil {
			result = Warn // with providers, they are hardly meant for it
		}
	}
	for _, path := range stray {
		r.Add("docker-config", result, fmt.Sprintf("if this node's pulls need these credentials, put them in %s and make that file readable only by root", paths[0]), "%s has credentials; %s", path, why)
	}
}

// homes are the homes of people, as they usually are below a root directory.
func homes(root string) []string {
	list := []string{filepath.Join(root, "root")}
	dir, err := os.Open(filepath.Join(root, "home"))
	if err != nil {
		return list
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxHomes)
	slices.Sort(names)
	for _, name := range names {
		list = append(list, filepath.Join(root, "home", name))
	}
	return list
}

// dockerLogins are the docker configs of homes that have logins, at most a few,
// without those that are looked at anyway.
func dockerLogins(ctx context.Context, homes, known []string) (list []string) {
	for _, home := range homes {
		for _, name := range []string{".docker/config.json", ".dockercfg"} {
			path := filepath.Join(home, name)
			if len(list) == maxStray || slices.ContainsFunc(known, func(p string) bool { return samePath(p, path) }) {
				continue
			}
			kind := pullsecret.DockerConfig
			if name == ".dockercfg" {
				kind = pullsecret.Dockercfg
			}
			data, err := regularfile.Read(ctx, path, maxHomeConfig)
			if err == nil && pullsecret.CheckAs(kind, path, data, time.Now()).Credentials > 0 {
				list = append(list, path)
			}
		}
	}
	return list
}
