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

// cause is why a kubelet exits, and how to fix it.
type cause struct {
	says, fix string   // says is "" if unknown
	log       []string // lines that show the cause; the last lines if unknown
}

// unknownLines is the number of log lines to show if the cause is unknown.
const unknownLines = 5

// causeOf finds why the kubelet exits, from the service manager or the log.
func (k *Kubelet) causeOf(state service.State, lines []string) cause {
	for _, c := range stateCauses() {
		if c.is(state) {
			return k.fill(c.says, c.fix, nil)
		}
	}
	if u := k.Setup.Unit; u != nil && len(u.Missing) > 0 {
		return k.fill("its unit reads "+k.Node.Host(u.Missing[0])+", which does not exist", "create the file, or make it optional with EnvironmentFile=-FILE in a drop-in", nil)
	}
	// The first line is usually the best; then the latest.
	ordered := slices.Clone(lines)
	if len(ordered) > 1 {
		slices.Reverse(ordered[1:])
	}
	for _, line := range ordered {
		plain := strings.ReplaceAll(line, `\"`, `"`)
		for _, c := range logCauses() {
			if m := c.line.FindStringSubmatch(plain); m != nil {
				out := c.tell(k, m)
				out.log = []string{line}
				return out
			}
		}
	}
	return cause{log: relevantLines(lines)}
}

// relevantLines returns lines of a log without a known cause: the first, which is
// usually the best, and the last ones. It omits klog's info lines.
func relevantLines(lines []string) []string {
	information := regexp.MustCompile(`^I\d{4} `)
	if rest := slices.DeleteFunc(slices.Clone(lines), information.MatchString); len(rest) > 0 {
		lines = rest
	}
	if len(lines) > unknownLines {
		lines = slices.Concat(lines[:1], lines[len(lines)-unknownLines+1:])
	}
	return lines
}

// fill replaces the placeholders of a text by values of the node.
func (k *Kubelet) fill(says, fix string, m []string) cause {
	next := k.pairOf(node.RunningFlags{Config: k.Setup.Config.Path, BinDir: k.Setup.BinDir.Path})
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
		"RESTART", k.restart(false),
	}
	for i, text := range m {
		pairs = append(pairs, fmt.Sprintf("$%d", i), strings.TrimRight(text, `"`))
	}
	r := strings.NewReplacer(pairs...)
	return cause{says: r.Replace(says), fix: r.Replace(fix)}
}

// stateCause is a cause that the service manager reports.
type stateCause struct {
	is        func(service.State) bool
	says, fix string
}

// stateCauses returns exit codes (systemd.exec(5), "Process exit codes") and unit
// results.
func stateCauses() []stateCause {
	code := func(n int) func(service.State) bool {
		return func(s service.State) bool { return s.ExitStatus == n && !s.Signalled() }
	}
	result := func(text string) func(service.State) bool {
		return func(s service.State) bool { return s.Result == text }
	}
	return []stateCause{
		{code(203), "systemd cannot run PROGRAM (203/EXEC): it is missing, not executable, or for another architecture", "ls -l PROGRAM; reinstall the kubelet's package"},
		{code(200), "systemd cannot change to the unit's WorkingDirectory= (200/CHDIR)", "systemctl cat UNIT"},
		{code(217), "the unit's User= does not exist (217/USER)", "systemctl cat UNIT"},
		{result("oom-kill"), "the kernel's OOM killer killed the process", "add memory to the machine, or raise the unit's MemoryMax="},
		{result("watchdog"), "systemd killed the process because it missed its watchdog deadline (WatchdogSec)", "journalctl -u UNIT; the most common cause is a slow disk or runtime"},
	}
}

// logCause is a cause in a line of the kubelet's log, with quotes unescaped.
type logCause struct {
	line *regexp.Regexp
	tell func(k *Kubelet, m []string) cause
}

// says returns a cause with a fixed text, in which $1 is a group of the pattern.
func says(line, text, fix string) logCause {
	return logCause{regexp.MustCompile(line), func(k *Kubelet, m []string) cause { return k.fill(text, fix, m) }}
}

// logCauses returns the kubelet's error messages, specific ones first. Sources:
// cmd/kubelet/app/server.go, pkg/credentialprovider/plugin, pkg/kubelet/cm,
// pkg/kubelet/certificate/bootstrap, and featuregate in component-base.
func logCauses() []logCause {
	return slices.Concat(providerCauses(), flagCauses(), machineCauses())
}

// providerCauses returns errors of credential providers.
func providerCauses() []logCause {
	return []logCause{
		says(`plugin binary directory +did not exist`, "--image-credential-provider-config is set without --image-credential-provider-bin-dir", "set both flags or neither; then RESTART"),
		says(`plugin binary directory (\S+) did not exist`, "--image-credential-provider-bin-dir is $1, which does not exist", "put the plugins there, or correct the flag; then RESTART"),
		says(`credential provider config path is empty`, "--image-credential-provider-bin-dir is set without --image-credential-provider-config", "set both flags or neither; then RESTART"),
		says(`unable to access path "([^"]+)": .*?(no such file or directory|permission denied|not a directory)`, "--image-credential-provider-config is $1, which cannot be read: $2", "create the file, or correct the flag; then RESTART"),
		says(`no configuration files found in directory "([^"]+)"`, "--image-credential-provider-config is $1, which contains no *.json, *.yaml or *.yml file", "put a configuration there; then RESTART"),
		says(`credential provider configuration from "([^"]+)": .*is a directory`, "$1 is a directory, which kubelets before 1.34 do not read, BEING", "set --image-credential-provider-config to one file"),
		inConfig(`no kind "CredentialProviderConfig" is registered for version "([^"]+)"`, "the kubelet does not support CredentialProviderConfig $1, BEING", "v1 needs kubelet 1.26 and v1beta1 needs 1.24; run VALIDATE"),
		inConfig(`duplicate provider name "([^"]+)" found`, "two providers have the name $1", "rename one of them and its executable; then RESTART"),
		inConfig(`error decoding config "([^"]+)": (.*)`, "$1 cannot be decoded: $2", "fix it and run VALIDATE; then RESTART"),
		inConfig(`failed to validate credential provider config: (.*)`, "CONFIG is invalid: $1", "fix it and run VALIDATE; then RESTART"),
		inBinDir(`plugin binary executable .*did not exist`),
		inBinDir(`error inspecting binary executable`),
		says(`Failed to register CRI auth plugins.*?err="(.*)"`, "its credential providers: $1", "run VALIDATE"),
	}
}

// flagCauses returns errors of the kubelet's flags and configuration.
func flagCauses() []logCause {
	return []logCause{
		inFlags(`unknown flag: (--[\w-]+)`, "the kubelet has no flag $1, BEING", "remove $1; then RESTART"),
		inFlags(`flag needs an argument: (--[\w-]+)`, "the flag $1 has no value", "set a value; then RESTART"),
		inFlags(`invalid argument "[^"]*" for "(--[\w-]+)" flag`, "the value of the flag $1 has the wrong type", "correct it; then RESTART"),
		inGates(`unrecognized feature gate: (\w+)`, "the kubelet has no feature gate $1, BEING: the name is misspelled, or the gate was removed", "remove the gate from featureGates in the kubelet's configuration and from --feature-gates; then RESTART"),
		inGates(`cannot set feature gate (\w+) to (\w+), feature is locked to (\w+)`, "feature gate $1 is locked to $3 and cannot be set to $2", "remove the gate from featureGates in the kubelet's configuration and from --feature-gates; then RESTART"),
		says(`failed to load kubelet config file, path: ([^\s,]+), .*no such file or directory`, "the kubelet's configuration $1 does not exist", "this is expected until kubeadm init or kubeadm join has been run, which creates the file"),
		says(`failed to load kubelet config file, path: ([^\s,]+), error: (.*)`, "the kubelet's configuration $1 cannot be read: $2", "fix it; then RESTART"),
		says(`failed to load kubelet dropin file, path: ([^\s,]+), (.*)`, "the kubelet's configuration $1 cannot be read: $2", "fix it; then RESTART"),
		says(`failed to validate kubelet configuration, error: (.*?), path`, "the kubelet's configuration is invalid: $1", "fix the configuration (--config); then RESTART"),
	}
}

// machineCauses returns errors of the machine and the cluster.
func machineCauses() []logCause {
	return []logCause{
		says(`running with swap on is not supported`, "swap is enabled on this machine, and this kubelet refuses to start with swap on", "run swapoff -a and remove the swap entry from /etc/fstab, or set failSwapOn: false in the kubelet's configuration"),
		says(`kubelet cgroup driver: "(\w+)" is different from docker cgroup driver: "(\w+)"`, "the kubelet uses the cgroup driver $1, but the runtime uses $2", "use the same driver for both: set cgroupDriver in the kubelet's configuration and SystemdCgroup in containerd's configuration"),
		says(`expected cgroupsPath to be of format "slice:prefix:name"`, "the runtime uses the cgroup driver systemd, but the kubelet does not", "set cgroupDriver: systemd in the kubelet's configuration; then RESTART"),
		says(`unknown service runtime\.v1`, "the container runtime does not support CRI v1: containerd is older than 1.6, or the CRI plugin is disabled", `remove "cri" from disabled_plugins in /etc/containerd/config.toml; systemctl restart containerd`),
		says(`validate CRI v1 \w+ API for endpoint "(?:unix://)?([^"]+)".*(no such file or directory|connection refused|permission denied|deadline exceeded|context deadline)`, "the container runtime does not respond at $1: $2", "check systemctl status containerd (or crio), and containerRuntimeEndpoint in the kubelet's configuration"),
		says(`unable to load bootstrap kubeconfig: stat ([^\s:]+): no such file or directory`, "the kubelet's kubeconfig is missing or its certificate has expired, and the bootstrap kubeconfig $1 does not exist", "run kubeadm join with a new token; if the certificate expired, run kubeadm certs check-expiration and, on a control plane, kubeadm init phase kubeconfig kubelet"),
		says(`(?:certificate in (\S+) is expired|x509: certificate has expired or is not yet valid)`, "the kubelet's or the API server's certificate has expired, or the clock is wrong: $1", "date; openssl x509 -noout -enddate -in /var/lib/kubelet/pki/kubelet-client-current.pem; kubeadm certs check-expiration"),
		says(`invalid kubeconfig: (.*)`, "the kubelet's kubeconfig cannot be used: $1", "fix the file given by --kubeconfig; then RESTART"),
		says(`listen tcp\d? (\S+): bind: address already in use`, "address $1 is already in use, perhaps by a second kubelet", "find the process with ss -ltnp"),
		says(`inotify_init: too many open files|failed to create fsnotify watcher: too many open files`, "the machine has run out of inotify instances", "sysctl fs.inotify.max_user_instances=512"),
		says(`no space left on device`, "a disk is full", "df -h; df -i"),
	}
}

// inConfig returns a cause in the provider configuration, which regcred reports with
// line and field.
func inConfig(line, text, fix string) logCause {
	return logCause{regexp.MustCompile(line), func(k *Kubelet, m []string) cause {
		out := k.fill(text, fix, m)
		cfg, err := config.Load(k.Node.Host(k.Setup.Config.Path))
		if err == nil && k.Setup.Version.Kubelet != "" {
			err = cfg.ValidateFor(k.Setup.Target())
		} else if err == nil {
			err = cfg.Validate()
		}
		if list := terminal.Flatten(err); len(list) > 0 && k.Setup.Config.Set() {
			out.says = list[0].Error()
			if len(list) > 1 {
				out.says += fmt.Sprintf(" (and %d more)", len(list)-1)
			}
		}
		return out
	}}
}

// inBinDir returns a missing executable. The kubelet does not log which one.
func inBinDir(line string) logCause {
	return logCause{regexp.MustCompile(line), func(k *Kubelet, m []string) cause {
		out := k.fill("a provider's executable is missing from BINDIR or cannot be run", "put the executable there, with the provider's name and mode 0755; then RESTART", m)
		cfg, err := config.Load(k.Node.Host(k.Setup.Config.Path))
		if err != nil || !k.Setup.BinDir.Set() {
			return out
		}
		var found []string
		for _, f := range lint.BinDir(cfg, k.Node.Host(k.Setup.BinDir.Path)) {
			if report.StopsKubelet(f) {
				found = append(found, f.Message)
			}
		}
		if len(found) > 0 {
			out.says = strings.Join(found, "; ")
		}
		return out
	}}
}

// inFlags returns a flag error with the files that set the flag.
func inFlags(line, text, fix string) logCause { return setBy(line, text, fix, (*node.Reading).Given) }

// inGates returns a feature gate error with the files that set the gate.
func inGates(line, text, fix string) logCause {
	return setBy(line, text, fix, (*node.Reading).GateSettings)
}

// setBy returns a cause with the files that set the name in the pattern's first group.
func setBy(line, text, fix string, find func(*node.Reading, context.Context, string) []node.Given) logCause {
	return logCause{regexp.MustCompile(line), func(k *Kubelet, m []string) cause {
		out := k.fill(text, fix, m)
		if at := given(find(k.Node, context.Background(), m[1])); at != "" {
			out.says += "; it is set in " + at
		}
		return out
	}}
}

// given returns where a flag is set.
func given(list []node.Given) string {
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
