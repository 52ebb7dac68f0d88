// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/plugin"
	"github.com/regcred/regcred/plugintest"
)

// conformanceCase is a plugin and the inputs for its conformance check.
type conformanceCase struct {
	what    string
	name    string // name of the plugin
	cloud   func() (*Cloud, error)
	args    func(dir string) []string
	options plugintest.Options
}

// conformanceCases returns this repository's plugins with their inputs.
func conformanceCases() []conformanceCase {
	ecr := []string{
		"111122223333.dkr.ecr.us-west-2.amazonaws.com/team/app", "111122223333.dkr.ecr.us-west-2.amazonaws.com/team/other",
		"444455556666.dkr.ecr.eu-west-1.amazonaws.com/team/app",
	}
	generic := []string{"registry.example/team/app", "registry.example/team/other", "other.example/app"}
	return []conformanceCase{
		{what: ECR, name: ECR, cloud: func() (*Cloud, error) { return NewAWS() }, options: plugintest.Options{Images: ecr}},
		{what: GCR, name: GCR, cloud: NewGoogle, options: plugintest.Options{Images: []string{
			"europe-docker.pkg.dev/project/team/app", "europe-docker.pkg.dev/project/team/other", "gcr.io/project/app",
		}}},
		{what: ACR, name: ACR, cloud: NewAzure, options: plugintest.Options{Images: []string{
			"team.azurecr.io/app", "team.azurecr.io/other", "other.azurecr.io/app",
		}}},
		{what: DockerConfig, name: DockerConfig, args: dockerConfigArgs, options: plugintest.Options{Images: generic}},
		{what: Token, name: Token, args: tokenArgs, options: plugintest.Options{Images: generic, ServiceAccount: &plugintest.ServiceAccount{
			Audience: "registry.example", CacheType: config.CachePerToken, Required: true,
		}}},
		{what: Static, name: Static, args: staticArgs, options: plugintest.Options{Images: generic}},
	}
}

func dockerConfigArgs(dir string) []string {
	entry := `{"username":"user","password":"` + canary.PasswordSecret + `"}`
	return []string{"--config", writeFile(filepath.Join(dir, "config.json"), `{"auths":{"registry.example":`+entry+`,"other.example":`+entry+`}}`)}
}

func tokenArgs(string) []string {
	return []string{"--registry=registry.example", "--registry=other.example", "--username=jwt", "--audience=registry.example"}
}

func staticArgs(dir string) []string {
	return []string{"--host=registry.example", "--host=other.example", "--username=user", "--password-file=" + writeFile(filepath.Join(dir, "password"), canary.PasswordSecret)}
}

func writeFile(path, content string) string {
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		panic(err)
	}
	return path
}

// TestConformance runs the conformance suite on this repository's plugins, which must
// pass, and on AWS's plugin. It prints the table of docs/project/field-notes.md.
func TestConformance(t *testing.T) {
	dir := t.TempDir()
	table := "| plugin | ok | info | warning | error | skipped |\n|---|---|---|---|---|---|\n"
	notes := ""
	for _, c := range conformanceCases() {
		path := must.Get(Build(dir, c.name))(t)
		findings := c.checkPlugin(t, path)
		table, notes = table+tableRow(c.what, findings), notes+tableNotes(c.what, findings)
		for _, f := range findings {
			if f.Severity == finding.SeverityError {
				t.Errorf("%s: %s: %v", c.what, f.Rule, f)
			}
		}
	}
	path := must.Get(BuildUpstreamECR(dir))(t)
	version := must.Get(UpstreamVersion(path))(t)
	theirs := "upstream " + ECR + " " + version
	findings := conformanceCases()[0].checkPlugin(t, path)
	t.Logf("results:\n%s\n%s", table+tableRow(theirs, findings), notes+tableNotes(theirs, findings))
}

// checkPlugin runs the conformance suite on a plugin. It passes the plugin's whole configuration in Env
// and Args, because the suite changes the inherited environment.
func (c conformanceCase) checkPlugin(t *testing.T, path string) []plugintest.Finding {
	t.Helper()
	cmd := plugin.Command{Path: path, Environ: []string{}}
	if c.cloud != nil {
		cloud := must.Get(c.cloud())(t)
		defer cloud.Close()
		cmd.Env, cmd.Args = plugin.NewSecrets(cloud.Environ...), plugin.NewSecrets(cloud.Args...)
	}
	if c.args != nil {
		cmd.Args = plugin.NewSecrets(c.args(t.TempDir())...)
	}
	return plugintest.Run(t.Context(), cmd, c.options)
}

// tableRow returns a table row with the number of findings of each severity.
func tableRow(what string, findings []plugintest.Finding) string {
	order := []finding.Severity{finding.SeverityOK, finding.SeverityInfo, finding.SeverityWarning, finding.SeverityError, finding.SeveritySkipped}
	count := map[finding.Severity]int{}
	for _, f := range findings {
		count[f.Severity]++
	}
	row := "| `" + what + "` |"
	for _, s := range order {
		row += fmt.Sprintf(" %d |", count[s])
	}
	return row + "\n"
}

// tableNotes lists the findings whose severity is not OK.
func tableNotes(what string, findings []plugintest.Finding) string {
	var b strings.Builder
	for _, f := range findings {
		if f.Severity != finding.SeverityOK {
			fmt.Fprintf(&b, "- `%s`, `%s`, %s: %s\n", what, f.Rule, f.Severity, f.Message)
		}
	}
	return b.String()
}
