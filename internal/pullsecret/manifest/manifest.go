// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package manifest renders the roles and admission policies that the pull-secret controller needs for
// a configuration. RBAC with resourceNames is the boundary, because an admission policy does not stop
// a PATCH from disclosing another Secret; the policies are the second layer.
//
//	yaml, err := manifest.Render(file, cfg, manifest.Options{Namespace: "regcred-system", ServiceAccount: "regcred-controller", Inject: true})
package manifest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/pullsecret"
)

// Options names the controller's identity and what to render.
type Options struct {
	Namespace, ServiceAccount string
	Name                      string // of the roles; "" means the service account's name

	// Inject adds the MutatingAdmissionPolicy, which needs Kubernetes 1.36.
	Inject bool
}

//go:embed objects.yaml
var objects string

// Render returns YAML documents.
func Render(f *pullsecret.File, c *config.Config, o Options) ([]byte, error) {
	name := o.Name
	if name == "" {
		name = o.ServiceAccount
	}
	var b bytes.Buffer
	err := template.Must(template.New("").Funcs(template.FuncMap{"json": jsonText, "cel": celText}).Parse(objects)).Execute(&b, struct {
		Options
		Name, User                              string
		SecretsPolicy, TokensPolicy, PodsPolicy string
		SecretName, AccountPrefix               string
		Secrets, Accounts, Audiences            []string
		Labels                                  pullsecret.Labels
		Selected                                string
	}{
		Options: o, Name: name, User: "system:serviceaccount:" + o.Namespace + ":" + o.ServiceAccount,
		SecretsPolicy: name + "-secrets", TokensPolicy: name + "-tokens", PodsPolicy: name + "-pods",
		SecretName: f.SecretName, AccountPrefix: f.AccountSecret(""),
		Secrets: f.SecretNames(), Accounts: f.ServiceAccounts, Audiences: audiences(f, c),
		Labels: f.Namespaces, Selected: selected(f.Namespaces),
	})
	return b.Bytes(), err
}

// audiences returns the audiences of the providers' tokens, or nil if no token is needed.
func audiences(f *pullsecret.File, c *config.Config) (list []string) {
	for _, p := range c.Providers {
		if t := p.TokenAttributes; t != nil && len(f.ServiceAccounts) > 0 && !slices.Contains(list, t.ServiceAccountTokenAudience) {
			list = append(list, t.ServiceAccountTokenAudience)
		}
	}
	slices.Sort(list)
	return list
}

// selected returns a CEL expression for a namespace with these labels.
func selected(l pullsecret.Labels) string {
	var terms []string
	for _, k := range slices.Sorted(maps.Keys(l)) {
		terms = append(terms, "namespaceObject.metadata.?labels["+celString(k)+"].orValue('') == "+celString(l[k]))
	}
	return strings.Join(terms, " && ")
}

// jsonText returns a YAML value.
func jsonText(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}

// celText returns a string or a list of strings as a CEL expression that is also a YAML scalar.
func celText(v any) string {
	list, ok := v.([]string)
	if !ok {
		return celString(v.(string))
	}
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = celString(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func celString(s string) string {
	text := strconv.QuoteToASCII(s) // an audience may contain any character
	text = strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`)
	return "'" + strings.ReplaceAll(text, "'", `\'`) + "'"
}
