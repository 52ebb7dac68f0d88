// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/metadata"

	"github.com/regcred/regcred/internal/apiserver"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/pullsecret"
	"github.com/regcred/regcred/internal/terminal"
)

// secretsFlags holds the flags of "regcred secrets".
type secretsFlags struct {
	kube      kubeFlags
	namespace string
	output    *enumFlag
}

func (a *app) secretsCmd() *cobra.Command {
	s := &secretsFlags{}
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "Show the pull secrets that regcred-controller keeps fresh",
		Long: `Show the Secrets that regcred-controller writes: their registries, the providers
of the credentials, the earliest expiry, and the last event about a failure.

This command needs permission to list Secrets, of which it reads only the
metadata. With permission to list events, it also shows failures.

The exit code is 0 if all credentials are current, 1 if not, and 3 if there are
no Secrets.`,
		Example: `  kubectl regcred secrets
  regcred secrets -n team-a -o json`,
		Args: optionalArgs(),
	}
	cmd.Flags().StringVarP(&s.namespace, "namespace", "n", "", "`namespace` of the Secrets (default: all)")
	s.output = addOutputFlag(cmd, "text", "json")
	s.kube.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.listSecrets(cmd.Context(), s) }
	return cmd
}

// secretsReport is the result of "secrets".
type secretsReport struct {
	Secrets []secretReport `json:"secrets"`

	now time.Time
}

// secretReport describes a Secret.
type secretReport struct {
	Namespace  string             `json:"namespace"`
	Name       string             `json:"name"`
	Registries []pullsecret.Entry `json:"registries"`
	Expires    time.Time          `json:"expires,omitzero"` // the earliest expiry
	State      string             `json:"state"`            // current, incomplete, expired
	LastError  string             `json:"lastError,omitempty"`
}

func (a *app) listSecrets(ctx context.Context, s *secretsFlags) error {
	cfg, from, err := s.kube.clientConfig(ctx, &node.Origin{Environ: a.environ})
	if err != nil {
		return err
	}
	if s.kube.kubeconfig == "" || a.verbose || cfg.Insecure {
		a.Note("contacting API server %s (%s)", cfg.Host, from)
	}
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	events, err := apiserver.New(cfg, 30*time.Second)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r := &secretsReport{Secrets: []secretReport{}, now: a.Now()}
	o := metav1.ListOptions{LabelSelector: pullsecret.LabelManagedBy + "=" + pullsecret.ManagedBy, Limit: 500}
	for {
		list, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(s.namespace).List(ctx, o)
		if err != nil {
			return fmt.Errorf("list Secrets: %w", err)
		}
		for i := range list.Items {
			r.Secrets = append(r.Secrets, newSecretReport(&list.Items[i], r.now))
		}
		if o.Continue = list.Continue; o.Continue == "" {
			break
		}
	}
	slices.SortFunc(r.Secrets, func(x, y secretReport) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	if text := r.addEvents(ctx, events, s.namespace); text != "" {
		a.Note("failures are not shown: %s", text)
	}
	if err := a.printResult(s.output, r, r.render); err != nil {
		return err
	}
	if len(r.Secrets) == 0 {
		return &exitError{code: exitNoMatch, hint: "check the cluster (--context) and namespace (-n), and label a namespace: docs/pull-secrets.md"}
	}
	if slices.ContainsFunc(r.Secrets, func(s secretReport) bool { return s.State != pullsecret.StateCurrent }) {
		return exitWithCode(exitFailed)
	}
	return nil
}

func newSecretReport(o *metav1.PartialObjectMetadata, now time.Time) secretReport {
	status := pullsecret.ParseStatus(o.Annotations)
	return secretReport{Namespace: o.Namespace, Name: o.Name, Registries: nonNilSlice(status.Entries), Expires: status.Expires(), State: status.State(now)}
}

// addEvents adds the last failure of each Secret. It returns why the events cannot be read.
func (r *secretsReport) addEvents(ctx context.Context, server *apiserver.Server, namespace string) string {
	var list eventsv1.EventList
	failure := server.GetObject(ctx, &apiserver.Call{
		Verb: "list", Group: "events.k8s.io", Resource: "events", Namespace: namespace, MaxSize: 64 << 20,
		Query: url.Values{"fieldSelector": {"reportingController=" + pullsecret.ManagedBy}},
	}, "EventList", &list)
	if failure != nil {
		return cmp.Or(failure.Message, fmt.Sprint(failure.Err))
	}
	for i := range r.Secrets {
		s := &r.Secrets[i]
		var last time.Time
		for _, e := range list.Items {
			// The text begins with the Secret's name.
			if e.Namespace == s.Namespace && strings.HasPrefix(e.Note, "Secret "+s.Name+" ") && e.EventTime.After(last) {
				last, s.LastError = e.EventTime.Time, apiserver.CleanMessage(e.Note)
			}
		}
	}
	return ""
}

func (r *secretsReport) render(t *terminal.Text) {
	if len(r.Secrets) == 0 {
		t.MarkedLine(terminal.MarkNoCredential, "there are no Secrets of regcred-controller")
		return
	}
	var rows [][]string
	var marks []terminal.Mark
	for _, s := range r.Secrets {
		var keys, providers []string
		for _, e := range s.Registries {
			keys = append(keys, e.Key)
			if !slices.Contains(providers, e.Provider) {
				providers = append(providers, e.Provider)
			}
		}
		expires := "-"
		if !s.Expires.IsZero() {
			expires = "in " + duration.HumanDuration(s.Expires.Sub(r.now))
			if !r.now.Before(s.Expires) {
				expires = duration.HumanDuration(r.now.Sub(s.Expires)) + " ago"
			}
		}
		mark, lastError := terminal.MarkOK, "-"
		if s.State != pullsecret.StateCurrent {
			mark, lastError = terminal.MarkError, cmp.Or(s.LastError, "-")
		}
		rows = append(rows, []string{s.Namespace, s.Name, s.State, cmp.Or(strings.Join(keys, ","), "-"), cmp.Or(strings.Join(providers, ","), "-"), expires, lastError})
		marks = append(marks, mark)
	}
	t.TruncatedTable([]string{"NAMESPACE", "SECRET", "STATE", "REGISTRIES", "PROVIDERS", "EXPIRES", "LAST ERROR"}, rows, 2, marks)
}
