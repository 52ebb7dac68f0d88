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

	"github.com/regcred/regcred/internal/textfmt"
)

// KubeletLog returns the path of the kubelet's log file. It returns "" if the kubelet logs to
// the service manager.
func (s *Setup) KubeletLog() string {
	log := s.Kind.kindSpec().log
	if log == "" || s.Rancher == nil {
		return ""
	}
	return path.Join(s.Rancher.DataDir, log)
}

// newRefusal returns why regcred does not change a node, or nil if it can.
func newRefusal(s *Setup) *ChangeRefusal {
	k := s.Kind.kindSpec()
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

// DesiredConfig holds the configuration that a node should have, for
// [Setup.ManualInstructions].
type DesiredConfig struct {
	Config     string // a complete CredentialProviderConfig in YAML
	ConfigPath string // path on the node at which Config should be
	BinDir     string
	Providers  []DesiredProvider
}

// DesiredProvider holds a provider's settings. Systems such as Bottlerocket have their own
// configuration format for them.
type DesiredProvider struct {
	Name          string // name of the executable
	MatchImages   []string
	CacheDuration string // such as "10m0s"
	Env           map[string]string
	Args          []string
	Tokens        bool // the provider has tokenAttributes
}

//go:embed manual/*.tmpl
var manualTemplates embed.FS

// ManualInstructions returns instructions for a node that has a [ChangeRefusal]. They use the
// configuration format of the node's distribution. The text ends with a newline.
func (s *Setup) ManualInstructions(d DesiredConfig) (string, error) {
	t, err := template.New("").Funcs(template.FuncMap{
		"base64":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"contains": strings.Contains,
		"dir":      path.Dir,
		"indent":   prefixLines,
		"join":     strings.Join,
		"path":     textfmt.QuoteShellPath,
		"toml":     tomlString,
		"trim":     func(s string) string { return strings.TrimRight(s, "\n") },
		"word":     textfmt.QuoteShellWord,
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
	kind := s.Kind.kindSpec()
	var b strings.Builder
	err = t.ExecuteTemplate(&b, cmp.Or(kind.manualTemplate, "flags")+".tmpl", struct {
		DesiredConfig
		Setup        *Setup
		Names, Flags []string
		Values       string
	}{d, s, names, []string{"--" + configFlag + "=" + d.ConfigPath, "--" + binDirFlag + "=" + d.BinDir}, kind.helmValues})
	return b.String(), err
}

// prefixLines adds a prefix to each line and removes trailing spaces.
func prefixLines(prefix, text string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString(strings.TrimRight(prefix+line, " ") + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// tomlString quotes s as a TOML basic string, which uses the same escapes as JSON.
func tomlString(s string) (string, error) {
	data, err := json.Marshal(s)
	return string(data), err
}
