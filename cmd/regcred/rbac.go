// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// rbacFlags are the flags of "regcred rbac".
type rbacFlags struct {
	output         *choice
	serviceAccount objectName
	user, group    string
	namespaces     []string
	pullSecrets    bool
	name           string
}

func (a *app) rbacCmd() *cobra.Command {
	f := &rbacFlags{}
	cmd := &cobra.Command{
		Use:   "rbac [PATH]",
		Short: "Print the Kubernetes permissions that a configuration needs",
		Long: `rbac prints the roles and bindings that the configuration at PATH needs, for
providers with tokenAttributes: those of the kubelets, or of what else runs
regcred with --pod.

Kubelets may read the service accounts of their pods, and request tokens that
are bound to these pods, without a role. What they lack is the right to request
tokens for the audiences of the configuration. Any other identity needs no right
to an audience, but must be allowed to read service accounts and pods, and to
request tokens; and with --pull-secrets to read secrets.

The exit code is 0, or 3 if nothing is needed.`,
		Example: `  regcred rbac providers.yaml | kubectl apply -f -
  sudo regcred rbac --as-kubelet
  regcred rbac --service-account kube-system/prepuller --namespace team providers.yaml`,
		Args: atMost("PATH"),
	}
	f.output = addOutputFlag(cmd, "yaml", "json")
	flags := cmd.Flags()
	flags.Var(&f.serviceAccount, "service-account", "the service account as which regcred runs, in place of the kubelets")
	flags.StringVar(&f.user, "user", "", "`name` of the user as whom regcred runs, in place of the kubelets")
	flags.StringVar(&f.group, "group", "", "`name` of the group as which regcred runs, in place of the kubelets (default "+doctor.NodesGroup+")")
	flags.StringArrayVar(&f.namespaces, "namespace", nil, "`namespace` of the pods, for a role there in place of one for the whole cluster; may be repeated")
	flags.BoolVar(&f.pullSecrets, "pull-secrets", false, "allow to read secrets too, for the image pull secrets of pods")
	flags.StringVar(&f.name, "name", "", "`name` of the roles and bindings (default regcred-kubelet for kubelets, otherwise regcred)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.rbac(cmd.OutOrStdout(), f, strings.Join(args, ""))
	}
	return cmd
}

func (a *app) rbac(out io.Writer, f *rbacFlags, path string) error {
	who, err := f.subject()
	if err != nil {
		return err
	}
	o, err := a.resolve(path, false)
	if err != nil {
		return err
	}
	cfg, err := a.loadValid(o)
	if err != nil {
		return err
	}
	audiences := doctor.Audiences(cfg)
	rules := a.rules(f, who, audiences)
	if len(rules) == 0 {
		return exit(exitEmpty)
	}
	if slices.Contains(audiences, "*") && who.isNode() {
		a.Warn("the audience \"*\" is RBAC's word for all: the role lets kubelets request tokens for any audience")
	}
	objects := f.objects(who, rules)
	if f.output.value == "json" {
		return terminal.WriteJSON(out, rbacList{"v1", "List", objects})
	}
	return writeManifests(out, rbacComment(who, cfg), objects)
}

// rules lists what who lacks; if that is nothing, it says why.
func (a *app) rules(f *rbacFlags, who rbacSubject, audiences []string) []rbacRule {
	var rules []rbacRule
	if who.isNode() {
		if f.pullSecrets {
			a.Note("kubelets may read the pull secrets of their pods without a role: --pull-secrets adds nothing")
		}
		for _, audience := range audiences {
			rules = append(rules, coreRule(audience, doctor.AudienceVerb))
		}
	} else {
		rules = otherRules(f.pullSecrets, len(audiences) > 0)
	}
	if len(rules) == 0 {
		a.Note("no provider has tokenAttributes, so %s no permission", who.needs())
	}
	return rules
}

// otherRules is what an identity that is not a node's needs for lookups with
// --pod or --service-account.
func otherRules(secrets, tokens bool) []rbacRule {
	if !secrets && !tokens {
		return nil
	}
	// Also without tokens: --service-account reads the names of the secrets there.
	rules := []rbacRule{coreRule("pods", "get"), coreRule("serviceaccounts", "get")}
	if tokens {
		rules = append(rules, coreRule("serviceaccounts/token", "create"))
	}
	if secrets {
		rules = append(rules, coreRule("secrets", "get"))
	}
	return rules
}

const rbacGroup = "rbac.authorization.k8s.io"

// rbacSubject is who gets a role.
type rbacSubject struct {
	Kind      string `json:"kind"`
	APIGroup  string `json:"apiGroup,omitempty"` // none for service accounts
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

// dnsLabel is what a namespace is called (RFC 1123, as Kubernetes has it).
var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// checkNames refuses names that an API server would.
func (f *rbacFlags) checkNames() error {
	for _, ns := range append(slices.Clone(f.namespaces), f.serviceAccount.namespace) {
		if ns != "" && !dnsLabel.MatchString(ns) {
			return usageError("", "%q cannot be a namespace: it may have lower-case letters, digits and \"-\"", ns)
		}
	}
	if n := f.name; n == "." || n == ".." || strings.ContainsAny(n, "/%") {
		return usageError("", "--name %q cannot be the name of a role", n)
	}
	return nil
}

// subject is who the flags name.
func (f *rbacFlags) subject() (rbacSubject, error) {
	if err := oneAtMost(given{"service-account", f.serviceAccount.String()}, given{"user", f.user}, given{"group", f.group}); err != nil {
		return rbacSubject{}, err
	}
	if err := f.checkNames(); err != nil {
		return rbacSubject{}, err
	}
	switch {
	case f.serviceAccount.given():
		return rbacSubject{Kind: "ServiceAccount", Name: f.serviceAccount.name, Namespace: f.serviceAccount.namespace}, nil
	case f.user != "":
		return rbacSubject{Kind: "User", APIGroup: rbacGroup, Name: f.user}, nil
	case f.group != "":
		return rbacSubject{Kind: "Group", APIGroup: rbacGroup, Name: f.group}, nil
	}
	return rbacSubject{Kind: "Group", APIGroup: rbacGroup, Name: doctor.NodesGroup}, nil
}

// isNode reports whether the Node authorizer and NodeRestriction know the subject.
func (s rbacSubject) isNode() bool {
	return s.Kind == "Group" && s.Name == doctor.NodesGroup || s.Kind == "User" && strings.HasPrefix(s.Name, doctor.NodeUserPrefix)
}

// needs begins a sentence about what the subject needs.
func (s rbacSubject) needs() string {
	if s.isNode() {
		return "kubelets need"
	}
	return s.describe() + " needs"
}

func (s rbacSubject) describe() string {
	if s.Kind == "ServiceAccount" {
		return "service account " + s.Namespace + "/" + s.Name
	}
	return strings.ToLower(s.Kind) + " " + s.Name
}

// rbacRule is a PolicyRule.
type rbacRule struct {
	APIGroups []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

// coreRule is for a resource of the core group.
func coreRule(resource, verb string) rbacRule {
	return rbacRule{[]string{""}, []string{resource}, []string{verb}}
}

// rbacObject is a role, or a binding of one.
type rbacObject struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Metadata   rbacMetadata  `json:"metadata"`
	Rules      []rbacRule    `json:"rules,omitempty"`
	RoleRef    *rbacRoleRef  `json:"roleRef,omitempty"`
	Subjects   []rbacSubject `json:"subjects,omitempty"`
}

type rbacMetadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

type rbacRoleRef struct {
	APIGroup string `json:"apiGroup"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
}

// rbacList is what kubectl takes as several objects in JSON.
type rbacList struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Items      []rbacObject `json:"items"`
}

// objects are a role and its binding: for the cluster, or in each namespace.
func (f *rbacFlags) objects(who rbacSubject, rules []rbacRule) []rbacObject {
	name := f.name
	switch {
	case name != "":
	case who.isNode():
		name = "regcred-kubelet"
	default:
		name = "regcred"
	}
	if len(f.namespaces) == 0 {
		return roleAndBinding("ClusterRole", rbacMetadata{Name: name}, who, rules)
	}
	var list []rbacObject
	for _, ns := range f.namespaces {
		list = append(list, roleAndBinding("Role", rbacMetadata{name, ns}, who, rules)...)
	}
	return list
}

func roleAndBinding(kind string, meta rbacMetadata, who rbacSubject, rules []rbacRule) []rbacObject {
	const version = rbacGroup + "/v1"
	return []rbacObject{
		{APIVersion: version, Kind: kind, Metadata: meta, Rules: rules},
		{APIVersion: version, Kind: kind + "Binding", Metadata: meta, RoleRef: &rbacRoleRef{rbacGroup, kind, meta.Name}, Subjects: []rbacSubject{who}},
	}
}

// rbacComment says to whoever finds the manifest what it is for.
func rbacComment(who rbacSubject, cfg *regcred.Config) []string {
	if !who.isNode() {
		return []string{
			"What " + who.describe() + " needs to look up credentials for pods with regcred.",
			"With it, it can request a token for each service account in reach: narrow it with --namespace.",
		}
	}
	lines := []string{"Kubelets may request tokens for these audiences, bound to pods of their nodes:"}
	for _, p := range cfg.Providers {
		if t := p.TokenAttributes; t != nil {
			lines = append(lines, fmt.Sprintf("  %q for provider %q", t.ServiceAccountTokenAudience, p.Name))
		}
	}
	return lines
}

// writeManifests writes YAML documents, after a comment.
func writeManifests(out io.Writer, comment []string, objects []rbacObject) error {
	var b bytes.Buffer
	b.WriteString(terminal.Comment(comment))
	for i, o := range objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(data)
	}
	_, err := out.Write(b.Bytes())
	return err
}
