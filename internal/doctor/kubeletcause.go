// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/service"
	"github.com/regcred/regcred/internal/terminal"
	"github.com/regcred/regcred/lint"
)

// exitCause describes why a kubelet exits, and how to fix it.
type exitCause struct {
	message, fix string   // message is "" if the cause is unknown
	log          []string // log lines that show the cause; if it is unknown, the most useful lines
}

// unknownCauseLines is the number of log lines to show if the cause is unknown.
const unknownCauseLines = 5

// findExitCause determines why the kubelet exits, from the state of its service and from its
// log.
func (k *Kubelet) findExitCause(state service.State, lines []string) exitCause {
	for _, c := range serviceStateCauses() {
		if c.matches(state) {
			return k.expandCause(c.message, c.fix, nil)
		}
	}
	if u := k.Setup.Unit; u != nil && len(u.Missing) > 0 {
		return k.expandCause("its unit reads "+k.Node.HostPath(u.Missing[0])+", which does not exist", "create the file, or make it optional with EnvironmentFile=-FILE in a drop-in", nil)
	}
	// Search the first line first, because it is usually the most useful, and then the latest
	// lines.
	ordered := slices.Clone(lines)
	if len(ordered) > 1 {
		slices.Reverse(ordered[1:])
	}
	// The kubelet's error messages, most specific first. Sources: cmd/kubelet/app/server.go,
	// pkg/credentialprovider/plugin, pkg/kubelet/cm, pkg/kubelet/certificate/bootstrap, and
	// featuregate in component-base.
	causes := slices.Concat(providerLogCauses(), flagLogCauses(), machineLogCauses())
	for _, line := range ordered {
		plain := strings.ReplaceAll(line, `\"`, `"`)
		for _, c := range causes {
			if m := c.line.FindStringSubmatch(plain); m != nil {
				out := c.newCause(k, m)
				out.log = []string{line}
				return out
			}
		}
	}
	return exitCause{log: relevantLines(lines)}
}

// relevantLines returns the log lines to show if the cause is unknown: the first, which is
// usually the most useful, and the last ones. It omits klog's info lines.
func relevantLines(lines []string) []string {
	information := regexp.MustCompile(`^I\d{4} `)
	if rest := slices.DeleteFunc(slices.Clone(lines), information.MatchString); len(rest) > 0 {
		lines = rest
	}
	if len(lines) > unknownCauseLines {
		lines = slices.Concat(lines[:1], lines[len(lines)-unknownCauseLines+1:])
	}
	return lines
}

// expandCause returns a cause with the given texts. It replaces placeholders such as UNIT and
// CONFIG with values from the node, and $1 with m[1].
func (k *Kubelet) expandCause(says, fix string, m []string) exitCause {
	next := k.pathsFromFlags(node.RunningFlags{Config: k.Setup.Config.Path, BinDir: k.Setup.BinDir.Path})
	path := cmp.Or(next.config, "CONFIG")
	being, validate := "", node.ValidateCommand(k.Setup.Target(), path)
	if v := k.Setup.Version.Kubelet; v != "" {
		being = " (kubelet " + v + ")"
	}
	pairs := []string{
		"UNIT", strings.TrimSuffix(k.Setup.Service, ".service"),
		"PROGRAM", cmp.Or(k.Setup.Program, "the program"),
		"CONFIG", path,
		"BINDIR", cmp.Or(next.binDir, "DIR"),
		", BEING", being, "VALIDATE", validate,
		"RESTART", k.restartCommand(false),
	}
	for i, text := range m {
		pairs = append(pairs, fmt.Sprintf("$%d", i), strings.TrimRight(text, `"`))
	}
	r := strings.NewReplacer(pairs...)
	return exitCause{message: r.Replace(says), fix: r.Replace(fix)}
}

// serviceStateCause recognizes a cause in the state of the service.
type serviceStateCause struct {
	matches      func(service.State) bool
	message, fix string
}

// serviceStateCauses maps exit codes (systemd.exec(5), "Process exit codes") and unit
// results to causes.
func serviceStateCauses() []serviceStateCause {
	code := func(n int) func(service.State) bool {
		return func(s service.State) bool { return s.ExitStatus == n && !s.Signalled() }
	}
	result := func(text string) func(service.State) bool {
		return func(s service.State) bool { return s.Result == text }
	}
	return []serviceStateCause{
		{code(203), "systemd cannot run PROGRAM (203/EXEC): it is missing, not executable, or for another architecture", "ls -l PROGRAM; reinstall the kubelet's package"},
		{code(200), "systemd cannot change to the unit's WorkingDirectory= (200/CHDIR)", "systemctl cat UNIT"},
		{code(217), "the unit's User= does not exist (217/USER)", "systemctl cat UNIT"},
		{result("oom-kill"), "the kernel's OOM killer killed the process", "add memory to the machine, or raise the unit's MemoryMax="},
		{result("watchdog"), "systemd killed the process because it missed its watchdog deadline (WatchdogSec)", "journalctl -u UNIT; the most common cause is a slow disk or runtime"},
	}
}

// logLineCause recognizes a cause in a line of the kubelet's log, in which quotes have been
// unescaped.
type logLineCause struct {
	line     *regexp.Regexp
	newCause func(k *Kubelet, m []string) exitCause
}

// newLogCause returns a cause with a fixed text, in which $1 stands for the first group of
// the regular expression.
func newLogCause(line, text, fix string) logLineCause {
	return logLineCause{regexp.MustCompile(line), func(k *Kubelet, m []string) exitCause { return k.expandCause(text, fix, m) }}
}

// providerLogCauses returns log lines about errors of credential providers.
func providerLogCauses() []logLineCause {
	return []logLineCause{
		newLogCause(`plugin binary directory +did not exist`, "--image-credential-provider-config is set without --image-credential-provider-bin-dir", "set both flags or neither; then RESTART"),
		newLogCause(`plugin binary directory (\S+) did not exist`, "--image-credential-provider-bin-dir is $1, which does not exist", "put the plugins there, or correct the flag; then RESTART"),
		newLogCause(`credential provider config path is empty`, "--image-credential-provider-bin-dir is set without --image-credential-provider-config", "set both flags or neither; then RESTART"),
		newLogCause(`unable to access path "([^"]+)": .*?(no such file or directory|permission denied|not a directory)`, "--image-credential-provider-config is $1, which cannot be read: $2", "create the file, or correct the flag; then RESTART"),
		newLogCause(`no configuration files found in directory "([^"]+)"`, "--image-credential-provider-config is $1, which contains no *.json, *.yaml or *.yml file", "put a configuration there; then RESTART"),
		newLogCause(`credential provider configuration from "([^"]+)": .*is a directory`, "$1 is a directory, which kubelets before 1.34 do not read, BEING", "set --image-credential-provider-config to one file"),
		newConfigCause(`no kind "CredentialProviderConfig" is registered for version "([^"]+)"`, "the kubelet does not support CredentialProviderConfig $1, BEING", "v1 needs kubelet 1.26 and v1beta1 needs 1.24; run VALIDATE"),
		newConfigCause(`duplicate provider name "([^"]+)" found`, "two providers have the name $1", "rename one of them and its executable; then RESTART"),
		newConfigCause(`error decoding config "([^"]+)": (.*)`, "$1 cannot be decoded: $2", "fix it and run VALIDATE; then RESTART"),
		newConfigCause(`failed to validate credential provider config: (.*)`, "CONFIG is invalid: $1", "fix it and run VALIDATE; then RESTART"),
		newBinDirCause(`plugin binary executable .*did not exist`),
		newBinDirCause(`error inspecting binary executable`),
		newLogCause(`Failed to register CRI auth plugins.*?err="(.*)"`, "its credential providers: $1", "run VALIDATE"),
	}
}

// flagLogCauses returns log lines about errors in the kubelet's flags and configuration.
func flagLogCauses() []logLineCause {
	return []logLineCause{
		newSettingCause((*node.Reader).FlagOccurrences, `unknown flag: (--[\w-]+)`, "the kubelet has no flag $1, BEING", "remove $1; then RESTART"),
		newSettingCause((*node.Reader).FlagOccurrences, `flag needs an argument: (--[\w-]+)`, "the flag $1 has no value", "set a value; then RESTART"),
		newSettingCause((*node.Reader).FlagOccurrences, `invalid argument "[^"]*" for "(--[\w-]+)" flag`, "the value of the flag $1 has the wrong type", "correct it; then RESTART"),
		newSettingCause((*node.Reader).FeatureGateOccurrences, `unrecognized feature gate: (\w+)`, "the kubelet has no feature gate $1, BEING: the name is misspelled, or the gate was removed", "remove the gate from featureGates in the kubelet's configuration and from --feature-gates; then RESTART"),
		newSettingCause((*node.Reader).FeatureGateOccurrences, `cannot set feature gate (\w+) to (\w+), feature is locked to (\w+)`, "feature gate $1 is locked to $3 and cannot be set to $2", "remove the gate from featureGates in the kubelet's configuration and from --feature-gates; then RESTART"),
		newLogCause(`failed to load kubelet config file, path: ([^\s,]+), .*no such file or directory`, "the kubelet's configuration $1 does not exist", "this is expected until kubeadm init or kubeadm join has been run, which creates the file"),
		newLogCause(`failed to load kubelet config file, path: ([^\s,]+), error: (.*)`, "the kubelet's configuration $1 cannot be read: $2", "fix it; then RESTART"),
		newLogCause(`failed to load kubelet dropin file, path: ([^\s,]+), (.*)`, "the kubelet's configuration $1 cannot be read: $2", "fix it; then RESTART"),
		newLogCause(`failed to validate kubelet configuration, error: (.*?), path`, "the kubelet's configuration is invalid: $1", "fix the configuration (--config); then RESTART"),
	}
}

// machineLogCauses returns log lines about errors of the machine and the cluster.
func machineLogCauses() []logLineCause {
	return []logLineCause{
		newLogCause(`running with swap on is not supported`, "swap is enabled on this machine, and this kubelet refuses to start with swap on", "run swapoff -a and remove the swap entry from /etc/fstab, or set failSwapOn: false in the kubelet's configuration"),
		newLogCause(`kubelet cgroup driver: "(\w+)" is different from docker cgroup driver: "(\w+)"`, "the kubelet uses the cgroup driver $1, but the runtime uses $2", "use the same driver for both: set cgroupDriver in the kubelet's configuration and SystemdCgroup in containerd's configuration"),
		newLogCause(`expected cgroupsPath to be of format "slice:prefix:name"`, "the runtime uses the cgroup driver systemd, but the kubelet does not", "set cgroupDriver: systemd in the kubelet's configuration; then RESTART"),
		newLogCause(`unknown service runtime\.v1`, "the container runtime does not support CRI v1: containerd is older than 1.6, or the CRI plugin is disabled", `remove "cri" from disabled_plugins in /etc/containerd/config.toml; systemctl restart containerd`),
		newLogCause(`validate CRI v1 \w+ API for endpoint "(?:unix://)?([^"]+)".*(no such file or directory|connection refused|permission denied|deadline exceeded|context deadline)`, "the container runtime does not respond at $1: $2", "check systemctl status containerd (or crio), and containerRuntimeEndpoint in the kubelet's configuration"),
		newLogCause(`unable to load bootstrap kubeconfig: stat ([^\s:]+): no such file or directory`, "the kubelet's kubeconfig is missing or its certificate has expired, and the bootstrap kubeconfig $1 does not exist", "run kubeadm join with a new token; if the certificate expired, run kubeadm certs check-expiration and, on a control plane, kubeadm init phase kubeconfig kubelet"),
		newLogCause(`(?:certificate in (\S+) is expired|x509: certificate has expired or is not yet valid)`, "the kubelet's or the API server's certificate has expired, or the clock is wrong: $1", "date; openssl x509 -noout -enddate -in /var/lib/kubelet/pki/kubelet-client-current.pem; kubeadm certs check-expiration"),
		newLogCause(`invalid kubeconfig: (.*)`, "the kubelet's kubeconfig cannot be used: $1", "fix the file given by --kubeconfig; then RESTART"),
		newLogCause(`listen tcp\d? (\S+): bind: address already in use`, "address $1 is already in use, perhaps by a second kubelet", "find the process with ss -ltnp"),
		newLogCause(`inotify_init: too many open files|failed to create fsnotify watcher: too many open files`, "the machine has run out of inotify instances", "sysctl fs.inotify.max_user_instances=512"),
		newLogCause(`no space left on device`, "a disk is full", "df -h; df -i"),
	}
}

// newConfigCause returns a cause in the provider configuration. If regcred finds the error
// too, it uses regcred's message, which names the line and the field.
func newConfigCause(line, text, fix string) logLineCause {
	return logLineCause{regexp.MustCompile(line), func(k *Kubelet, m []string) exitCause {
		out := k.expandCause(text, fix, m)
		cfg, err := config.Load(k.Node.HostPath(k.Setup.Config.Path))
		if err == nil && k.Setup.Version.Kubelet != "" {
			err = cfg.ValidateFor(k.Setup.Target())
		} else if err == nil {
			err = cfg.Validate()
		}
		if list := terminal.FlattenErrors(err); len(list) > 0 && k.Setup.Config.IsSet() {
			out.message = list[0].Error()
			if len(list) > 1 {
				out.message += fmt.Sprintf(" (and %d more)", len(list)-1)
			}
		}
		return out
	}}
}

// newBinDirCause returns the cause for a missing executable. The kubelet does not log
// which executable is missing.
func newBinDirCause(line string) logLineCause {
	return logLineCause{regexp.MustCompile(line), func(k *Kubelet, m []string) exitCause {
		out := k.expandCause("a provider's executable is missing from BINDIR or cannot be run", "put the executable there, with the provider's name and mode 0755; then RESTART", m)
		cfg, err := config.Load(k.Node.HostPath(k.Setup.Config.Path))
		if err != nil || !k.Setup.BinDir.IsSet() {
			return out
		}
		var found []string
		for _, f := range lint.BinDir(cfg, k.Node.HostPath(k.Setup.BinDir.Path)) {
			if report.StopsKubelet(f) {
				found = append(found, f.Message)
			}
		}
		if len(found) > 0 {
			out.message = strings.Join(found, "; ")
		}
		return out
	}}
}

// newSettingCause returns a cause for a flag or feature gate, whose name is the first group
// of the regular expression. The cause lists the files that set the flag or gate, which find
// returns.
func newSettingCause(find func(*node.Reader, context.Context, string) []node.FlagOccurrence, line, text, fix string) logLineCause {
	return logLineCause{regexp.MustCompile(line), func(k *Kubelet, m []string) exitCause {
		out := k.expandCause(text, fix, m)
		if at := flagSourceText(find(k.Node, context.Background(), m[1])); at != "" {
			out.message += "; it is set in " + at
		}
		return out
	}}
}

// flagSourceText returns the files and lines that set a flag.
func flagSourceText(list []node.FlagOccurrence) string {
	var at []string
	for _, g := range list {
		text := fmt.Sprintf("%s:%d", g.File, g.Line)
		if g.By != "" {
			text += " (" + g.By + ")"
		}
		at = append(at, text)
	}
	return strings.Join(at, " and ")
}
