// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/doctor"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// doctorFlags holds the flags of "regcred doctor".
type doctorFlags struct {
	output     *enumFlag
	onlyChecks []string
	settings   bool
	kube       bool
	pod        objectNameFlag
	rules      report.Filter
	kubeFlags

	image       string
	pullSecrets []string
	offline     bool
	hostTimeout time.Duration
}

func (a *app) doctorCmd() *cobra.Command {
	d := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out why pulls fail on this node, and how to fix them",
		Long: `Check everything that a pull on this node depends on: the configuration, the
plugins, their file permissions, the docker config files, and the running
kubelet's flags and start time. If the kubelet keeps failing, doctor reads the
reason from systemd or OpenRC and from the last lines of the kubelet's log.
Plugins are run only with --image.

With --image, trace one image to its registry and stop at the first step that
fails. The steps are the reference, the matching providers, the credentials
(plugins are run), the runtime's mirror hosts and, for each host, the
DNS lookup, connection, TLS handshake, auth challenge, token request and
manifest request, trying each credential in turn.
If the pull would fail, the last line is the root cause and the edit that fixes
it. The runtime's proxies and CA certificates are used. Nothing is pulled.

With --kube, also check the cluster: whether the API server responds, which
identity it sees, and whether this identity can read the objects that a pull
needs and request tokens for the configured audiences. With --pod, request the
pod's tokens in dry-run mode. With both --pod and --image, look up the image for
this pod.

With --settings, list each kubelet flag and field that affects credentials
with every line that sets it, which line wins and why the others do not.

The exit code is 0 if no check fails, and 1 otherwise.`,
		Example: `  sudo regcred doctor --as-kubelet
  sudo regcred doctor --as-kubelet --kube --pod team/app-1
  sudo regcred doctor --as-kubelet --image registry.example/team/app:1.2 --pod team/app-1
  regcred doctor --config providers.yaml --bin-dir /opt/plugins -o json`,
		Args: optionalArgs(),
	}
	d.output = addOutputFlag(cmd, "text", "json", "sarif")
	f := cmd.Flags()
	f.StringSliceVar(&d.onlyChecks, "only", nil, "run only this `check`; may be repeated")
	registerFlagCompletion(cmd, "only", doctor.Checks())
	f.BoolVar(&d.settings, "settings", false, "only list the kubelet settings that affect credentials, and every line that sets them")
	f.BoolVar(&d.kube, "kube", false, "check the cluster too")
	f.Var(&d.pod, "pod", "also check the cluster for this pod, and request tokens for the pod as a dry run")
	addRuleFlags(cmd, &d.rules)
	d.kubeFlags.register(cmd)
	f.StringVar(&d.image, "image", "", "`image` to trace from its reference to its manifest in the registry")
	f.StringArrayVar(&d.pullSecrets, "pull-secret", nil, "with --image: `file` with an image pull secret: a Secret manifest or a docker config.json; may be repeated")
	f.BoolVar(&d.offline, "offline", false, "with --image: do not run plugins or contact hosts")
	f.DurationVar(&d.hostTimeout, "timeout", 20*time.Second, "with --image: maximum `time` for contacting all hosts")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.runDoctor(cmd.Context(), d)
	}
	return cmd
}

func (a *app) runDoctor(ctx context.Context, d *doctorFlags) error {
	if err := d.validate(); err != nil {
		return err
	}
	n := a.localNode().NewReader()
	if d.settings {
		list := n.Settings(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		return a.printResult(d.output, map[string][]node.Setting{"settings": list}, func(t *terminal.Text) { renderSettings(t, list) })
	}
	o, err := a.findOrigin(ctx, n, node.FindOptions{AllowNone: true, NeedBinDir: true})
	if e, ok := errors.AsType[*node.HintError](err); ok && e.Usage {
		return err
	}
	w := &doctor.Input{Kubelet: a.kubeletToCheck(ctx, n, o), OriginErr: err, Environ: a.environ, Rules: d.rules}
	if d.kube || d.pod.isSet() || d.kubeFlags != (kubeFlags{}) {
		w.Cluster = a.clusterToCheck(ctx, o, d)
	}
	if d.image != "" {
		w.Image = a.imageToTrace(w, d)
	}
	r, err := doctor.Run(ctx, w, d.onlyChecks...)
	if err != nil {
		return err
	}
	if d.output.value == "sarif" {
		err = a.WriteForeignJSON(report.SARIF(buildVersion(), readFileIfPossible, doctorFindings(r), r.Suppressed, nil))
	} else {
		err = a.printResult(d.output, r, func(t *terminal.Text) { renderDoctor(t, r) })
	}
	if err != nil || r.Healthy {
		return err
	}
	return cmp.Or(ctx.Err(), exitWithCode(exitFailed))
}

// kubeletToCheck returns doctor's input about the kubelet of this node.
func (a *app) kubeletToCheck(ctx context.Context, n *node.Reader, o *node.Origin) doctor.Kubelet {
	k := doctor.Kubelet{Node: n, Origin: o}
	if o == nil && a.asKubelet == "" {
		k.CallerOrigin = &node.Origin{Environ: a.environ, Dir: a.dir, RootDir: cmp.Or(a.rootDir, node.DefaultRootDir)}
	}
	setup, err := k.Node.Setup(ctx)
	if err != nil {
		return k // the system runs no kubelet, or ctx was canceled
	}
	k.Setup = setup
	if k.Node.IsHost() {
		k.Service = new(kubeletService(setup))
	}
	return k
}

// clusterToCheck returns the cluster to check. With --as-kubelet, the checks are skipped if there
// is no kubelet whose identity can be used, because another identity gives no useful results.
func (a *app) clusterToCheck(ctx context.Context, o *node.Origin, d *doctorFlags) *doctor.Cluster {
	c := &doctor.Cluster{Clock: &doctor.ClockSkew{Now: a.Now}, Namespace: d.pod.namespace, PodName: d.pod.name}
	if o == nil && a.asKubelet != "" && d.kubeconfig == "" {
		c.Skipped = "the current identity is not that of a kubelet"
		return c
	}
	client, err := a.connectKube(ctx, cmp.Or(o, a.originFromCaller()), d.kubeFlags, c.Clock.WrapTransport)
	if err != nil {
		c.Err = err
		return c
	}
	c.Client, c.ConfigSource = client.Client, client.configSource
	return c
}

// originFromCaller returns an origin with the caller's environment. It is used if the node has no
// configuration.
func (a *app) originFromCaller() *node.Origin { return &node.Origin{Environ: a.environ, Dir: a.dir} }

// doctorFindings returns the findings to include in SARIF. Passed and skipped checks are left out.
func doctorFindings(r *doctor.Report) (list []finding.Finding) {
	for _, f := range r.Findings {
		if f.Severity.Compare(finding.SeverityInfo) < 0 {
			continue
		}
		f.Rule = cmp.Or(f.Rule, report.DoctorRulePrefix+f.Check)
		list = append(list, f.Finding)
	}
	return list
}

func renderDoctor(t *terminal.Text, r *doctor.Report) {
	for _, f := range r.Findings {
		t.MarkedLine(terminal.Mark(f.Severity), f.Check+": "+f.String())
		for _, line := range f.Log {
			t.ContinuationLine("log: " + line)
		}
		if f.Fix != "" {
			t.ContinuationLine("fix: " + f.Fix)
		}
	}
	t.BlankLine()
	counts := r.Count()
	sum := fmt.Sprintf("%s: %s", terminal.FormatCount(len(r.Findings), "check"), terminal.SeverityCounts(counts))
	switch {
	case !r.Healthy:
		t.MarkedLine(terminal.MarkError, sum)
	case counts[finding.SeverityWarning] > 0:
		t.MarkedLine(terminal.MarkWarning, sum)
	default:
		t.MarkedLine(terminal.MarkOK, sum)
	}
	if r.Cause != "" {
		t.HangingIndent("cause: ", r.Cause)
	}
}

// renderSettings prints each setting with the lines that set it.
func renderSettings(t *terminal.Text, list []node.Setting) {
	if len(list) == 0 {
		t.MarkedLine(terminal.MarkSkipped, "no service on this machine starts a kubelet")
	}
	for _, s := range list {
		value := "not set"
		if s.Value != "" {
			value = terminal.QuoteShellWord(s.Value)
		}
		if s.Note != "" {
			value += " (" + s.Note + ")"
		}
		t.Heading(s.Name + ": " + value)
		for _, p := range s.Places {
			mark, text := terminal.MarkOK, p.String()
			if p.By != "" {
				text += " (" + p.By + ")"
			}
			if p.Value != "" {
				text += ": " + terminal.QuoteShellWord(p.Value)
			}
			if !p.Used {
				mark = terminal.MarkSkipped
			}
			t.Item(mark, text)
			if p.Why != "" {
				t.Detail("no effect: %s", p.Why)
			}
			if p.Fix != "" {
				t.Detail("fix: %s", p.Fix)
			}
		}
	}
}

// validate returns an error for flags that are mutually exclusive or out of range.
func (d *doctorFlags) validate() error {
	given := changedFlagNames(flagValue{"pull-secret", strings.Join(d.pullSecrets, ",")})
	if d.offline {
		given = append(given, "--offline")
	}
	switch {
	case d.settings && (d.image != "" || d.kube || d.pod.isSet() || len(d.onlyChecks) > 0 || d.output.value == "sarif"):
		return usageError("", "--settings only lists settings: omit --image, --kube, --pod, --only and -o sarif")
	case d.image == "" && given != nil:
		return usageError("", "%s requires --image", strings.Join(given, " "))
	case d.offline && (d.kube || d.pod.isSet()):
		return usageError("", "--offline sends no requests: omit --kube and --pod")
	case d.hostTimeout <= 0:
		return usageError("", "--timeout is %s; it must be greater than 0", d.hostTimeout)
	}
	for _, name := range d.onlyChecks {
		if !slices.Contains(doctor.Checks(), name) {
			return usageError("checks: "+strings.Join(doctor.Checks(), ", "), "--only %q: no such check", name)
		}
	}
	return nil
}

// imageToTrace returns doctor's input for --image.
func (a *app) imageToTrace(w *doctor.Input, d *doctorFlags) *doctor.Image {
	i := &doctor.Image{
		Reference: d.image, ForPod: d.pod.isSet(), Platform: "linux/" + runtime.GOARCH, Offline: d.offline, Timeout: d.hostTimeout,
	}
	if !d.offline {
		i.Lookup = func(ctx context.Context) (*regcred.Result, bool, error) {
			l := &lookupFlags{pullSecrets: d.pullSecrets, pod: d.pod, kubeFlags: d.kubeFlags}
			s, err := a.newSession(ctx, cmp.Or(w.Config, &config.Config{}), cmp.Or(w.Origin, a.originFromCaller()), l)
			if err != nil {
				return nil, false, fmt.Errorf("not looked up: %w", err)
			}
			defer s.Close()
			return s.lookupTarget(ctx, regcred.Request{Image: d.image})
		}
	}
	return i
}
