// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/shown"
)

// flagsFor are the two flags as a kubelet has them on its command line.
func flagsFor(config, binDir string) []string {
	return []string{"--" + configFlag + "=" + config, "--" + binDirFlag + "=" + binDir}
}

// flagLines is what any kubelet needs.
func flagLines(w Wish) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s:\n%s\n", w.ConfigPath, indent(w.Config, "#   "))
	fmt.Fprintf(&b, "# in %s:%s\n", w.BinDir, strings.Join(names(w, " "), ""))
	b.WriteString("# the kubelet's flags, wherever this node sets them; then restart it:\n")
	for _, flag := range flagsFor(w.ConfigPath, w.BinDir) {
		b.WriteString(flag + "\n")
	}
	return b.String()
}

func names(w Wish, before string) (list []string) {
	for _, p := range w.Providers {
		if n := before + p.Name; !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// indent puts a text into a block of YAML, or into comments.
func indent(text, by string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString(strings.TrimRight(by+line, " ") + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// chart has regcred's chart do it again on each new node, and after each boot. More are
// values of it: on GKE's nodes /var is mounted noexec.
func chart(w Wish, more string) string {
	return `# values.yaml for regcred's chart, deploy/chart (see docs/fleet.md). A pod on each node,
# including new nodes, installs the providers and reinstalls them after each boot.
mode: DryRun # change to Install once every node reports a correct plan
reapplied: true
` + more + `# Plugins that are not in regcred's image come from the images in plugins.images.
# Needed: ` + strings.Join(names(w, ""), ", ") + `
config:
` + indent(w.Config, "  ") + "\n"
}

func pluginFlags(w Wish) string {
	var b strings.Builder
	for _, name := range names(w, "") {
		b.WriteString(" --plugin ./" + shown.ShellWord(name))
	}
	return b.String()
}

// kops has it done before each start of the kubelet.
// kOps: docs/cluster_spec.md, fileAssets and hooks.
func kops(w Wish) string {
	return `# kops edit cluster: regcred and the plugins must be in /opt/regcred in the image, or
# be installed there by the instance groups' additionalUserData.
spec:
  fileAssets:
  - name: regcred
    path: /etc/regcred/credential-providers.yaml
    content: |
` + indent(w.Config, "      ") + `
  hooks:
  - name: regcred-install.service
    before:
    - kubelet.service
    manifest: |
      Type=oneshot
      WorkingDirectory=/opt/regcred
      ExecStart=/opt/regcred/regcred install /etc/regcred/credential-providers.yaml` + pluginFlags(w) + ` --reapplied
`
}

// openShiftConfig and openShiftBinDir are where OpenShift's own providers are:
// files of that directory restart a kubelet only, where others reboot the node.
const (
	openShiftConfig = "/etc/kubernetes/credential-providers/regcred.yaml"
	openShiftBinDir = "/usr/libexec/kubelet-image-credential-provider-plugins"
)

// openShift is a layer for the executables and a MachineConfig for the rest. Where
// OpenShift has a configuration already, that is the file, since the flags name
// it; else a drop-in has the flags.
func openShift(w Wish, s *Setup) string {
	config := cmp.Or(s.Vendor.Config.Path, openShiftConfig)
	var b strings.Builder
	b.WriteString("# 1. Add the executables in an image layer: set the Containerfile in a MachineOSConfig, or the built image as osImageURL.\n#   FROM BASE\n")
	for _, name := range names(w, "") {
		fmt.Fprintf(&b, "#   COPY %s %s/%s\n", name, openShiftBinDir, name)
	}
	b.WriteString("#   RUN ostree container commit\n# 2. Apply the following (oc apply -f -), and repeat with role: master for control planes.\n")
	if config != openShiftConfig {
		fmt.Fprintf(&b, "# It replaces OpenShift's %s: keep the providers of that file.\n", config)
	}
	b.WriteString(`apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata:
  name: 99-worker-regcred
  labels:
    machineconfiguration.openshift.io/role: worker
spec:
  config:
    ignition:
      version: 3.4.0
    storage:
      files:
      - path: ` + config + `
        mode: 0644
        overwrite: true
        contents:
          source: data:text/plain;charset=utf-8;base64,` + base64.StdEncoding.EncodeToString([]byte(w.Config)) + "\n")
	if config == openShiftConfig {
		b.WriteString("    systemd:\n      units:\n      - name: kubelet.service\n        dropins:\n        - name: " + dropInName +
			"\n          contents: |\n            [Service]\n" + openShiftFlags(s))
	}
	return b.String()
}

// openShiftFlags are lines of a drop-in. Some units have a variable for them; of others
// it freezes the command, which the next release may change.
func openShiftFlags(s *Setup) string {
	const variable = "KUBELET_CRIO_IMAGE_CREDENTIAL_PROVIDER_FLAGS"
	flags := flagsFor(openShiftConfig, openShiftBinDir)
	switch {
	case s.Unit == nil || s.Unit.Exec.Text == "":
		return "            # ExecStart= followed by the command of kubelet.service and " + strings.Join(flags, " ") + "\n"
	case strings.Contains(s.Unit.Exec.Text, "$"+variable):
		return "            Environment=\"" + variable + "=" + strings.Join(flags, " ") + "\"\n"
	}
	return "            # the command of this OpenShift release: update it with each release\n            ExecStart=\n            ExecStart=" + s.Unit.Exec.With(flags...) + "\n"
}

const talosBinDir = "/usr/local/lib/kubelet/credentialproviders"

// talos is a document for the machine configuration, and an extension.
func talos(w Wish) string {
	var b strings.Builder
	b.WriteString(`# 1. Ship the executables in a system extension: an image with manifest.yaml and rootfs/.
#   manifest.yaml:
#     version: v1alpha1
#     metadata:
#       name: regcred
#       version: 1.0.0
#       author: you
#       description: credential providers for the kubelet
#       compatibility:
#         talos:
#           version: ">= v1.9.0"
`)
	for _, name := range names(w, "") {
		fmt.Fprintf(&b, "#   rootfs%s/%s\n", talosBinDir, name)
	}
	b.WriteString(`# 2. Talos 1.14 and later: apply a separate document with talosctl patch machineconfig --patch @FILE.
apiVersion: v1alpha1
kind: KubeCredentialProviderConfig
configuration:
` + indent(w.Config, "  ") + `
# Talos before 1.14, instead:
# machine:
#   kubelet:
#     credentialProviderConfig:
` + indent(w.Config, "#       ") + "\n")
	return b.String()
}

// bottlerocket are settings, which have fields of their own.
// bottlerocket.dev: settings.kubernetes.credential-providers.
func bottlerocket(w Wish) string {
	var b strings.Builder
	b.WriteString("# Use as user data, or run: apiclient apply < FILE. The executables must be in /usr/libexec/kubernetes/kubelet/plugins\n# in the image: Bottlerocket includes ecr-credential-provider; other plugins need a custom build.\n")
	for _, p := range w.Providers {
		fmt.Fprintf(&b, "[settings.kubernetes.credential-providers.%s]\nenabled = true\nimage-patterns = [", tomlString(p.Name))
		for i, m := range p.MatchImages {
			fmt.Fprintf(&b, "%s%s", map[bool]string{true: ", "}[i > 0], tomlString(m))
		}
		b.WriteString("]\n")
		if p.CacheDuration != "" {
			fmt.Fprintf(&b, "cache-duration = %s\n", tomlString(p.CacheDuration))
		}
		if len(p.Env) > 0 {
			fmt.Fprintf(&b, "\n[settings.kubernetes.credential-providers.%s.environment]\n", tomlString(p.Name))
			for _, name := range sortedKeys(p.Env) {
				fmt.Fprintf(&b, "%s = %s\n", tomlString(name), tomlString(p.Env[name]))
			}
		}
		if len(p.Args) > 0 {
			b.WriteString("# Bottlerocket has no setting for args\n")
		}
		if p.Tokens {
			b.WriteString("# Bottlerocket has no setting for tokenAttributes\n")
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// minikube are its files and its start.
func minikube(w Wish) string {
	var b strings.Builder
	b.WriteString("# minikube copies files below ~/.minikube/files to the node at each start.\n")
	fmt.Fprintf(&b, "mkdir -p ~/.minikube/files%s ~/.minikube/files%s\n", shown.ShellPath(path.Dir(w.ConfigPath)), shown.ShellPath(w.BinDir))
	for _, name := range names(w, "") {
		fmt.Fprintf(&b, "install -m 0755 ./%s ~/.minikube/files%s/\n", shown.ShellWord(name), shown.ShellPath(w.BinDir))
	}
	fmt.Fprintf(&b, "cat >~/.minikube/files%s <<'EOF'\n%s\nEOF\n", shown.ShellPath(w.ConfigPath), strings.TrimRight(w.Config, "\n"))
	b.WriteString("minikube start")
	for _, flag := range flagsFor(w.ConfigPath, w.BinDir) {
		b.WriteString(" \\\n  --extra-config=kubelet." + shown.ShellWord(strings.TrimPrefix(flag, "--")))
	}
	return b.String() + "\n"
}

// microK8s are two lines of its file.
func microK8s(w Wish) string {
	return written(w) + "cat >>/var/snap/microk8s/current/args/kubelet <<'EOF'\n" +
		strings.Join(flagsFor(w.ConfigPath, w.BinDir), "\n") + "\nEOF\nmicrok8s stop && microk8s start\n"
}

// k0s is its service, written anew.
func k0s(w Wish) string {
	return written(w) + `# keep the service's current options (on a controller that is also a worker: k0s install controller --enable-worker):
k0s stop
k0s install worker --force --token-file TOKEN \
  --kubelet-extra-args=` + shown.ShellWord(strings.Join(flagsFor(w.ConfigPath, w.BinDir), " ")) + "\nk0s start\n"
}

// openRC is a line for the script that its service reads.
func openRC(w Wish) string {
	return written(w) + "cat >>/etc/conf.d/kubelet <<'EOF'\ncommand_args=\"${command_args} " +
		strings.Join(flagsFor(w.ConfigPath, w.BinDir), " ") + "\"\nEOF\nrc-service kubelet restart\n"
}

// written are commands that write the configuration and the executables.
func written(w Wish) string {
	var b strings.Builder
	fmt.Fprintf(&b, "mkdir -p %s %s\n", shown.ShellPath(path.Dir(w.ConfigPath)), shown.ShellPath(w.BinDir))
	for _, name := range names(w, "") {
		fmt.Fprintf(&b, "install -m 0755 ./%s %s/\n", shown.ShellWord(name), shown.ShellPath(w.BinDir))
	}
	fmt.Fprintf(&b, "cat >%s <<'EOF'\n%s\nEOF\n", shown.ShellPath(w.ConfigPath), strings.TrimRight(w.Config, "\n"))
	return b.String()
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// tomlString is a basic string of TOML, whose escapes JSON has too.
func tomlString(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return `""` // no string fails
	}
	return string(data)
}
