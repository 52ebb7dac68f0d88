// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"embed"
	"encoding/base64"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/regcred/regcred/internal/shown"
)

// KubeletLog returns the path of the kubelet's log, or "" if the service manager keeps
// the log.
func (s *Setup) KubeletLog() string {
	log := s.Kind.info().log
	if log == "" || s.Rancher == nil {
		return ""
	}
	return path.Join(s.Rancher.DataDir, log)
}

// newRefusal returns why changes to a node would be lost, or nil if they are kept.
func newRefusal(s *Setup) *ChangeRefusal {
	k := s.Kind.info()
	switch {
	case k.refusalReason != "":
		return &ChangeRefusal{Why: k.refusalReason, Reapplied: k.reapplied}
	case s.Way == MethodManual:
		return &ChangeRefusal{Why: unsupportedReason(s)}
	}
	return nil
}

// unsupportedReason returns why regcred cannot set the kubelet's flags.
func unsupportedReason(s *Setup) string {
	switch {
	case s.Kind == NoKubelet:
		return "found no kubelet.service, k3s, rke2 or OpenRC service that starts a kubelet"
	case s.Unit != nil && s.Unit.Problem != "":
		return "a drop-in cannot set this kubelet's flags: " + s.Unit.Problem
	case s.Rancher != nil && s.Config.Fixed != "":
		return s.Config.Fixed
	case s.Rancher != nil:
		return s.BinDir.Fixed
	case s.Init == InitOpenRC:
		return "OpenRC does not support drop-ins; set this kubelet's flags manually in /etc/conf.d/kubelet"
	}
	return "regcred cannot set this kubelet's flags"
}

// DesiredConfig is the configuration that a node should have.
type DesiredConfig struct {
	Config     string // a complete CredentialProviderConfig in YAML
	ConfigPath string // path for Config on the node
	BinDir     string
	Providers  []DesiredProvider
}

// DesiredProvider holds a provider's settings for systems that have their own
// configuration format.
type DesiredProvider struct {
	Name          string // of the executable
	MatchImages   []string
	CacheDuration string // "10m0s"
	Env           map[string]string
	Args          []string
	Tokens        bool // the provider has tokenAttributes
}

//go:embed manual/*.tmpl
var manualTemplates embed.FS

// ManualInstructions returns how to configure a node that has a [ChangeRefusal], in the
// format that the node's system uses. The text ends with a newline.
func (s *Setup) ManualInstructions(d DesiredConfig) (string, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"base64":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"contains": strings.Contains,
		"dir":      path.Dir,
		"indent":   prefixLines,
		"join":     strings.Join,
		"path":     shown.QuoteShellPath,
		"toml":     tomlString,
		"trim":     func(s string) string { return strings.TrimRight(s, "\n") },
		"word":     shown.QuoteShellWord,
	}).ParseFS(manualTemplates, "manual/*.tmpl")
	if err != nil {
		return "", err
	}
	var names []string
	for _, p := range d.Providers {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	kind := s.Kind.info()
	var b strings.Builder
	err = t.ExecuteTemplate(&b, cmp.Or(kind.manual, "flags")+".tmpl", struct {
		DesiredConfig
		Setup        *Setup
		Names, Flags []string
		Values       string
	}{d, s, names, []string{"--" + configFlag + "=" + d.ConfigPath, "--" + binDirFlag + "=" + d.BinDir}, kind.values})
	return b.String(), err
}

// prefixLines adds a prefix to each line.
func prefixLines(prefix, text string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString(strings.TrimRight(prefix+line, " ") + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// tomlString returns a TOML basic string, which uses the same escapes as JSON.
func tomlString(s string) (string, error) {
	data, err := json.Marshal(s)
	return string(data), err
}
