// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/pullsecret"
	"github.com/regcred/regcred/internal/pullsecret/manifest"
	"github.com/regcred/regcred/internal/terminal"
)

// rbacFlags holds the flags of "regcred rbac".
type rbacFlags struct {
	output         *enumFlag
	serviceAccount objectNameFlag
	user, group    string
	namespaces     []string
	pullSecrets    bool
	name           string
	controlled     string // path of a PullSecretConfig
}

func (a *app) rbacCmd() *cobra.Command {
	f := &rbacFlags{}
	cmd := &cobra.Command{
		Use:   "rbac [PATH]",
		Short: "Print the Kubernetes permissions that a configuration needs",
		Long: `For the providers with tokenAttributes in the configuration at PATH, print the
roles and bindings that kubelets need, or that another identity needs to run
regcred with --pod.

Even without a role, kubelets can read their pods' service accounts and request
tokens bound to these pods. Kubelets need a role to request tokens for the
configured audiences. Any other identity needs permission to read service
accounts and pods, to request tokens and, with --pull-secrets, to read secrets,
but does not need permission for audiences.

With --pull-secret-config, print the roles and admission policies that
regcred-controller needs as --service-account. They allow only the Secrets in
the file. The MutatingAdmissionPolicy needs Kubernetes 1.36.

The exit code is 0, or 3 if no permission is needed.`,
		Example: `  regcred rbac providers.yaml | kubectl apply -f -
  sudo regcred rbac --as-kubelet
  regcred rbac --service-account kube-system/prepuller --namespace team providers.yaml
  regcred rbac --pull-secret-config pull-secrets.yaml --service-account regcred-system/regcred-controller providers.yaml`,
		Args: optionalArgs("PATH"),
	}
	f.output = addOutputFlag(cmd, "yaml", "json")
	flags := cmd.Flags()
	flags.Var(&f.serviceAccount, "service-account", "service account to print roles for, instead of kubelets")
	flags.StringVar(&f.user, "user", "", "`name` of the user to print roles for, instead of kubelets")
	flags.StringVar(&f.group, "group", "", "`name` of the group to print roles for, instead of kubelets (default "+doctor.NodesGroup+")")
	flags.StringArrayVar(&f.namespaces, "namespace", nil, "`namespace` of the pods; a role in this namespace is printed instead of a cluster role; may be repeated")
	flags.BoolVar(&f.pullSecrets, "pull-secrets", false, "also allow reading secrets, for the pods' image pull secrets")
	flags.StringVar(&f.name, "name", "", "`name` of the roles and bindings (default regcred-kubelet for kubelets, otherwise regcred)")
	flags.StringVar(&f.controlled, "pull-secret-config", "", "`path` of a PullSecretConfig; print what regcred-controller needs for it")
	a.addKubeletFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.rbac(cmd.Context(), f, strings.Join(args, ""))
	}
	return cmd
}

func (a *app) rbac(ctx context.Context, f *rbacFlags, path string) error {
	who, err := f.parseSubject()
	if err != nil {
		return err
	}
	cfg, _, err := a.resolveAndLoad(ctx, path, false)
	if err != nil {
		return err
	}
	if f.controlled != "" {
		return a.rbacOfController(ctx, f, cfg)
	}
	audiences := doctor.Audiences(cfg)
	rules := a.policyRules(f, who, audiences)
	if len(rules) == 0 {
		return exitWithCode(exitNoMatch)
	}
	if slices.Contains(audiences, "*") && isNodeSubject(who) {
		a.Warn("in RBAC, the audience \"*\" means all audiences: the role lets kubelets request tokens for any audience")
	}
	objects := f.roleObjects(who, rules)
	if f.output.value == "json" {
		return a.writeList(objects)
	}
	return a.writeManifests(manifestComment(who, cfg), objects)
}

// rbacOfController prints the roles and policies of regcred-controller.
func (a *app) rbacOfController(ctx context.Context, f *rbacFlags, cfg *config.Config) error {
	if !f.serviceAccount.isSet() || len(f.namespaces) > 0 || f.pullSecrets {
		return usageError("", "--pull-secret-config requires --service-account, and excludes --namespace and --pull-secrets")
	}
	file, err := pullsecret.Load(ctx, f.controlled)
	if err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	data, err := manifest.Render(file, cfg, manifest.Options{
		Namespace: f.serviceAccount.namespace, ServiceAccount: f.serviceAccount.name, Name: f.name, Inject: true,
	})
	if err != nil {
		return err
	}
	if f.output.value == "yaml" {
		return a.WriteRaw(data)
	}
	var objects []any
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var o any
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return err
		}
		objects = append(objects, o)
	}
	return a.writeList(objects)
}

// writeList prints objects as a List in JSON.
func (a *app) writeList(objects []any) error {
	return a.WriteForeignJSON(struct {
		metav1.TypeMeta
		Items []any `json:"items"`
	}{metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, objects})
}

// policyRules returns the rules that who needs. If none exist, it prints the
// reason.
func (a *app) policyRules(f *rbacFlags, who rbacv1.Subject, audiences []string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	needs := subjectText(who) + " needs"
	if isNodeSubject(who) {
		needs = "kubelets need"
		if f.pullSecrets {
			a.Note("kubelets can read their pods' pull secrets without a role, so --pull-secrets has no effect")
		}
		for _, audience := range audiences {
			rules = append(rules, coreRule(audience, doctor.RequestAudienceVerb))
		}
	} else if f.pullSecrets || len(audiences) > 0 {
		// These rules are needed even if no tokens are requested, because --service-account reads
		// the names of the service account's pull secrets.
		rules = append(rules, coreRule("pods", "get"), coreRule("serviceaccounts", "get"))
		if len(audiences) > 0 {
			rules = append(rules, coreRule("serviceaccounts/token", "create"))
		}
		if f.pullSecrets {
			rules = append(rules, coreRule("secrets", "get"))
		}
	}
	if len(rules) == 0 {
		a.Note("no provider has tokenAttributes, so %s no permissions", needs)
	}
	return rules
}

// parseSubject returns the subject that the flags select. It rejects names that the API
// server would reject.
func (f *rbacFlags) parseSubject() (rbacv1.Subject, error) {
	if err := checkMutuallyExclusive(flagValue{"service-account", f.serviceAccount.String()}, flagValue{"user", f.user}, flagValue{"group", f.group}); err != nil {
		return rbacv1.Subject{}, err
	}
	for _, ns := range append(slices.Clone(f.namespaces), f.serviceAccount.namespace) {
		if ns != "" && len(validation.IsDNS1123Label(ns)) > 0 {
			return rbacv1.Subject{}, usageError("", "%q is not a valid namespace: use only lowercase letters, digits and \"-\"", ns)
		}
	}
	if n := f.name; n == "." || n == ".." || strings.ContainsAny(n, "/%") {
		return rbacv1.Subject{}, usageError("", "--name %q is not a valid role name", n)
	}
	switch {
	case f.serviceAccount.isSet():
		return rbacv1.Subject{Kind: "ServiceAccount", Name: f.serviceAccount.name, Namespace: f.serviceAccount.namespace}, nil
	case f.user != "":
		return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: f.user}, nil
	}
	return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: cmp.Or(f.group, doctor.NodesGroup)}, nil
}

// isNodeSubject reports whether the Node authorizer and NodeRestriction apply to the subject.
func isNodeSubject(s rbacv1.Subject) bool {
	return s.Kind == "Group" && s.Name == doctor.NodesGroup || s.Kind == "User" && strings.HasPrefix(s.Name, doctor.NodeUserPrefix)
}

func subjectText(s rbacv1.Subject) string {
	if s.Kind == "ServiceAccount" {
		return "service account " + s.Namespace + "/" + s.Name
	}
	return strings.ToLower(s.Kind) + " " + s.Name
}

// coreRule returns a rule for a resource in the core group.
func coreRule(resource, verb string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{verb}}
}

// roleObjects returns a role and its binding, either for the cluster or for each namespace.
func (f *rbacFlags) roleObjects(who rbacv1.Subject, rules []rbacv1.PolicyRule) []any {
	name := cmp.Or(f.name, "regcred")
	if f.name == "" && isNodeSubject(who) {
		name = "regcred-kubelet"
	}
	if len(f.namespaces) == 0 {
		return roleAndBinding("ClusterRole", metav1.ObjectMeta{Name: name}, who, rules)
	}
	var list []any
	for _, ns := range f.namespaces {
		list = append(list, roleAndBinding("Role", metav1.ObjectMeta{Name: name, Namespace: ns}, who, rules)...)
	}
	return list
}

// roleAndBinding returns a role of the given kind and its binding. It uses the ClusterRole types
// for both kinds, because a Role has the same fields.
func roleAndBinding(kind string, meta metav1.ObjectMeta, who rbacv1.Subject, rules []rbacv1.PolicyRule) []any {
	is := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: meta.Name}
	return []any{
		rbacv1.ClusterRole{TypeMeta: is(kind), ObjectMeta: meta, Rules: rules},
		rbacv1.ClusterRoleBinding{TypeMeta: is(kind + "Binding"), ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{who}},
	}
}

// manifestComment returns a comment that explains the manifest's purpose.
func manifestComment(who rbacv1.Subject, cfg *config.Config) []string {
	if !isNodeSubject(who) {
		return []string{
			"What " + subjectText(who) + " needs to look up credentials for pods with regcred.",
			"These roles allow token requests for every service account in scope: narrow the scope with --namespace.",
		}
	}
	lines := []string{"Allow kubelets to request tokens for these audiences, bound to pods on their nodes:"}
	for _, p := range cfg.Providers {
		if t := p.TokenAttributes; t != nil {
			lines = append(lines, fmt.Sprintf("  %q for provider %q", t.ServiceAccountTokenAudience, p.Name))
		}
	}
	return lines
}

// writeManifests writes a comment and YAML documents.
func (a *app) writeManifests(comment []string, objects []any) error {
	var b bytes.Buffer
	b.WriteString(terminal.CommentLines(comment))
	for i, o := range objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		if !terminal.IsPrintableLines(string(data)) {
			// JSON is valid YAML. terminal.EncodeJSON also escapes bidirectional control
			// characters, which YAML would allow.
			if data, err = terminal.EncodeJSON(o); err != nil {
				return err
			}
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(data)
	}
	return a.WriteRaw(b.Bytes())
}
