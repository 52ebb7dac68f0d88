// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/executable"
	"github.com/regcred/regcred/internal/generation"
	"github.com/regcred/regcred/internal/node"
)

// checkKubelet checks whether the kubelet is running, and whether it uses the checked
// configuration now and after its next restart.
func checkKubelet(ctx context.Context, w *Input, r *checkResults) {
	k := &w.Kubelet
	switch run := k.Setup.Running; {
	case run == nil && k.Setup.Kind == node.NoKubelet:
	case !k.checkRunning(ctx, r):
		k.checkVersion(r)
	case run != nil:
		k.compareRunningFlags(r)
	default:
		r.addResult(finding.SeverityOK, "", "%s runs", k.Setup.Service)
	}
}

// configPaths holds the paths of the configuration and the bin dir, as seen from this
// machine.
type configPaths struct{ config, binDir string }

func (p configPaths) isEmpty() bool { return p == configPaths{} }

func (p configPaths) String() string {
	if p.isEmpty() {
		return "no credential providers"
	}
	return fmt.Sprintf("--image-credential-provider-config=%s --image-credential-provider-bin-dir=%s", p.config, p.binDir)
}

// isSame reports whether p and o refer to the same files.
func (p configPaths) isSame(o configPaths) bool {
	return isSamePath(p.config, o.config) && isSamePath(p.binDir, o.binDir)
}

// pathsFromFlags returns the paths in a kubelet's flags, as seen from this machine.
func (k *Kubelet) pathsFromFlags(f node.RunningFlags) (p configPaths) {
	if f.Config != "" {
		p.config = k.Node.HostPath(f.Config)
	}
	if f.BinDir != "" {
		p.binDir = k.Node.HostPath(f.BinDir)
	}
	return p
}

// checkedPaths returns the paths of the checked configuration. ok is false if no
// configuration was checked.
func (k *Kubelet) checkedPaths() (p configPaths, ok bool) {
	if k.Origin == nil || k.Origin.NoProviders != nil {
		return configPaths{}, false
	}
	config, err := filepath.Abs(k.Origin.Config)
	binDir, binErr := filepath.Abs(k.Origin.BinDir)
	if errors.Join(err, binErr) != nil || k.Origin.Config == "" || k.Origin.BinDir == "" {
		return configPaths{}, false
	}
	return configPaths{config, binDir}, true
}

// compareRunningFlags compares the checked configuration with the flags of the running
// kubelet and the flags of its next start.
func (k *Kubelet) compareRunningFlags(r *checkResults) {
	who, next := k.describeProcess(), k.pathsFromFlags(k.Setup.NextFlags())
	have := next
	if f := k.Setup.Running.Flags; f != nil {
		have = k.pathsFromFlags(*f)
	}
	if k.Setup.Kind == node.NoKubelet {
		next = have // the kubelet's service is unknown
	}
	checked, ok := k.checkedPaths()
	switch {
	case !ok && have.isEmpty() && next.isEmpty():
		r.addResult(finding.SeverityOK, "", "%s runs without credential providers", who)
	case !ok && k.Origin == nil && have.isSame(next):
		r.addResult(finding.SeverityOK, "", "%s runs, with %v", who, have)
	case !have.isSame(next) && (!ok || checked.isSame(have) || checked.isSame(next)):
		refusal := k.rejectionError(next.config)
		k.reportPendingRestart(r, who, have, next, ok && checked.isSame(have), refusal != nil)
		if ok && checked.isSame(next) {
			k.checkVersion(r)
		} else if refusal != nil {
			r.addErrors(refusal, k.validateCommand(next.config))
		}
	case !checked.isSame(have):
		k.reportOtherConfig(r, who, have, checked)
		k.checkVersion(r)
	case k.checkConfigAge(r, who, checked.config):
		k.checkVersion(r)
	default:
		r.addResult(finding.SeverityOK, "", "%s runs with this configuration", who)
	}
}

// describeProcess describes the running kubelet by its name, PID and version.
func (k *Kubelet) describeProcess() string {
	program := "kubelet"
	if k.Setup.Running.Flags == nil {
		program = strings.TrimSuffix(k.Setup.Service, ".service")
	}
	who := fmt.Sprintf("%s process %d", program, k.Setup.Running.PID)
	if v := k.Setup.Version.Kubelet; v != "" {
		who += " (" + v + ")"
	}
	return who
}

// reportPendingRestart reports a kubelet that was started before its flags changed. holds
// means that the running kubelet uses the checked configuration. refused means that it would
// reject the new configuration.
func (k *Kubelet) reportPendingRestart(r *checkResults, who string, have, next configPaths, holds, refused bool) {
	result, so, fix := finding.SeverityWarning, "the checked configuration takes effect when the kubelet next starts", k.restartCommand(true)
	switch {
	case refused:
		result, so, fix = finding.SeverityError, wouldFailToStart, fixConfigFirst+fix
	case have.isEmpty():
		result, so = finding.SeverityError, "the kubelet calls no provider until it is restarted"
	case holds:
		so = "the kubelet still uses the checked configuration, but only until it is restarted"
	}
	r.addResult(result, fix, "%s was started with %v; now %s: %s", who, have, k.nextFlagsText(next), so)
}

// flagSource returns the file and line that set a flag for the kubelet's next start, or
// "".
func (k *Kubelet) flagSource(f node.Flag) string {
	if len(f.Given) == 0 {
		return ""
	}
	g := f.Given[len(f.Given)-1]
	return fmt.Sprintf("%s:%d", k.Node.HostPath(g.File), g.Line)
}

// nextFlagsText describes the flags of the next start, and the files that set them.
func (k *Kubelet) nextFlagsText(next configPaths) string {
	var at []string
	for _, f := range []node.Flag{k.Setup.Config, k.Setup.BinDir} {
		if place := k.flagSource(f); place != "" && !slices.Contains(at, place) {
			at = append(at, place)
		}
	}
	switch len(at) {
	case 0:
		return "its files set " + next.String()
	case 1:
		return fmt.Sprintf("%s sets %v", at[0], next)
	}
	return fmt.Sprintf("%s set %v", strings.Join(at, " and "), next)
}

// reportOtherConfig reports a kubelet that does not use the checked configuration.
func (k *Kubelet) reportOtherConfig(r *checkResults, who string, have, checked configPaths) {
	if !have.isEmpty() {
		r.addResult(finding.SeverityWarning, "run regcred doctor --as-kubelet to check the kubelet's flags", "%s runs with different flags than the ones checked here: %v", who, have)
		return
	}
	result := finding.SeverityWarning // set by a flag, so probably intentional
	if k.Origin.Discovered {
		result = finding.SeverityError
	}
	r.addResult(result, "run regcred install, or start the kubelet with "+checked.String(),
		"%s runs without credential providers: none of its flags refers to %s, the configuration being checked", who, checked.config)
}

// restartCommand returns the command that restarts the kubelet. With reread, systemd first
// reloads the unit, because it may have changed.
func (k *Kubelet) restartCommand(reread bool) string {
	name := k.Setup.Service
	if name == "" {
		return "restart the kubelet"
	}
	switch k.Setup.Init {
	case node.InitSystemd:
		cmd := "systemctl restart " + strings.TrimSuffix(name, ".service")
		if reread {
			cmd = "systemctl daemon-reload && " + cmd
		}
		return cmd
	case node.InitOpenRC:
		return "rc-service " + name + " restart"
	}
	return "restart the kubelet"
}

// checkConfigAge warns about a configuration that changed after the kubelet started, because
// the kubelet reads it only at startup (RegisterCredentialProviderPlugins). It does not check
// executables, which the kubelet looks up for each run.
func (k *Kubelet) checkConfigAge(r *checkResults, who, path string) (warned bool) {
	began := k.Node.StartTime(k.Setup.Running)
	if began.IsZero() {
		return false
	}
	// If regcred install manages the configuration, the check "installed" reports pending restarts.
	if _, err := os.Lstat(k.Node.HostPath(generation.DefaultDir + "/current")); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	files := []string{path}
	if k.Config != nil {
		for _, f := range k.Config.Files() {
			files = append(files, f.Name)
		}
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		at := info.ModTime()
		if renamed := executable.ChangeTime(info); renamed.After(at) { // a rename updates only the ctime
			at = renamed
		}
		// Skip files that changed before the kubelet read them, which is moments after its
		// start. Also skip times in the future, because then the clock was set back.
		if !at.After(began.Add(configReadDelay)) || at.After(time.Now()) {
			continue
		}
		result, so, fix := finding.SeverityWarning, "the kubelet keeps using the previous version of the file until it is restarted", k.restartCommand(false)
		if k.rejectionError(path) != nil {
			result, so, fix = finding.SeverityError, "the kubelet is still using the previous version of the file; "+wouldFailToStart, fixConfigFirst+fix
		}
		r.addResult(result, fix, "%s was changed at %s, after %s started (%s): %s",
			file, at.Format(time.DateTime), who, began.Format(time.DateTime), so)
		return true
	}
	return false
}

const configReadDelay = 2 * time.Second

// These texts describe a configuration that the node's kubelet rejects.
const (
	wouldFailToStart = "the kubelet would fail to start after a restart"
	fixConfigFirst   = "fix the configuration first, then "
)

// checkVersion reports why the node's kubelet rejects the configuration although the
// newest kubelet accepts it.
func (k *Kubelet) checkVersion(r *checkResults) {
	if k.Config == nil || k.Setup.Version.Kubelet == "" || len(k.Config.Providers) == 0 || slices.ContainsFunc(k.Config.Files(), (*config.File).OutOfTree) {
		return
	}
	path, _ := k.Config.Path()
	if err := validateForTarget(k.Setup.Target(), path); err != nil {
		r.addErrors(err, k.validateCommand(path))
	}
}

// validateCommand returns the command that prints all errors for the node's kubelet.
func (k *Kubelet) validateCommand(path string) string {
	target, who := k.Setup.TargetKubelet(), "the kubelet does not start with this"
	if target.KubeletVersion != "" {
		who = "this node's kubelet is " + target.KubeletVersion
	}
	return who + target.Caveat() + ": " + "for all errors, run " + node.ValidateCommand(target.Target, path)
}

// rejectionError returns why the node's kubelet would not start with a configuration,
// or nil. If the kubelet's version is unknown, the newest version is used.
func (k *Kubelet) rejectionError(path string) error {
	if path == "" {
		return nil
	}
	newest := validateForTarget(config.Target{KubeletVersion: config.NewestKubelet}, path)
	if node.UncheckedError(newest) != nil {
		return nil
	}
	target := k.Setup.TargetKubelet()
	if target.KubeletVersion == "" || target.Caveat() != "" && newest == nil {
		return newest
	}
	return validateForTarget(target.Target, path)
}

// validateForTarget returns the errors with which a kubelet rejects a configuration file. It loads
// the file again, because [node.Reader.ValidateConfig] may have changed the loaded configuration.
func validateForTarget(t config.Target, path string) error {
	cfg, err := config.Load(path)
	if err != nil {
		return err
	}
	return cfg.ValidateFor(t)
}
