// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package kubeconfig finds the configuration of an API server client, as kubectl does,
// and describes its source. It reads only the environment that is passed in.
package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/regcred/regcred/internal/apiserver"
)

// serviceAccountDir is the directory of a pod's service account token.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// Options selects a configuration.
type Options struct {
	Kubeconfig string   // path; "" means KUBECONFIG, then the pod's service account, then ~/.kube/config
	Context    string   // context in the kubeconfig; "" means its current-context
	Environ    []string // "key=value"; the process's environment is not read
}

// Load returns the configuration and a human-readable description of its source, for
// example "/etc/kubernetes/kubelet.conf, context default" or "in-cluster". The
// description warns if the kubeconfig runs a program to get credentials, or does not
// verify the server.
func Load(o Options) (cfg *rest.Config, from string, err error) {
	return loadConfig(o, serviceAccountDir)
}

// Namespace returns the namespace of the context or pod that [Load] uses, or "default"
// if none is set.
func Namespace(o Options) string { return namespaceFor(o, serviceAccountDir) }

func namespaceFor(o Options, podDir string) string {
	rules, _, inPod := loadingRules(o)
	if inPod {
		data, _ := os.ReadFile(filepath.Join(podDir, "namespace")) // the kubelet writes it next to the token
		return cmp.Or(strings.TrimSpace(string(data)), "default")
	}
	file, err := rules.Load()
	if err != nil {
		return "default"
	}
	if c := file.Contexts[cmp.Or(o.Context, file.CurrentContext)]; c != nil {
		return cmp.Or(c.Namespace, "default")
	}
	return "default"
}

// loadingRules returns the rules for loading the kubeconfig files, and a description of
// their source. inPod means that there is no kubeconfig and the pod's service account is
// used.
func loadingRules(o Options) (rules *clientcmd.ClientConfigLoadingRules, from string, inPod bool) {
	rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig}
	home := filepath.Join(homeDir(o.Environ), ".kube", "config")
	switch list := lookupEnv(o.Environ, "KUBECONFIG"); {
	case o.Kubeconfig != "":
		return rules, o.Kubeconfig, false
	case list != "":
		rules.Precedence = filepath.SplitList(list)
		return rules, "KUBECONFIG=" + list, false
	case o.Context == "" && lookupEnv(o.Environ, "KUBERNETES_SERVICE_HOST") != "":
		return nil, "in-cluster", true
	}
	rules.Precedence = []string{home}
	return rules, home, false
}

func loadConfig(o Options, podDir string) (cfg *rest.Config, from string, err error) {
	rules, from, inPod := loadingRules(o)
	if inPod {
		return podConfig(o.Environ, podDir)
	}
	if !slices.ContainsFunc(append(rules.Precedence, o.Kubeconfig), fileExists) {
		return nil, "", notFoundError(o, from)
	}
	return fileConfig(rules, o.Context, from)
}

// notFoundError returns the error for a missing kubeconfig.
func notFoundError(o Options, from string) error {
	if o.Kubeconfig != "" || strings.HasPrefix(from, "KUBECONFIG=") {
		return fmt.Errorf("kubeconfig %s: no such file", from)
	}
	return fmt.Errorf("no kubeconfig: KUBECONFIG is not set, this is not a pod (KUBERNETES_SERVICE_HOST is not set), and %s does not exist", from)
}

// fileExists reports whether path exists, even if it cannot be read.
func fileExists(path string) bool {
	if path == "" {
		return false
	}
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func fileConfig(rules *clientcmd.ClientConfigLoadingRules, context, from string) (*rest.Config, string, error) {
	file, err := rules.Load()
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig %s: %w", from, loadError(rules, err))
	}
	context = cmp.Or(context, file.CurrentContext)
	if len(file.Contexts) == 0 && len(file.Clusters) == 0 {
		return nil, "", fmt.Errorf("kubeconfig %s: no cluster", from)
	}
	if context == "" {
		return nil, "", fmt.Errorf("kubeconfig %s: current-context is not set; available contexts: %s", from, contextNamesText(file))
	}
	if file.Contexts[context] == nil {
		return nil, "", fmt.Errorf("kubeconfig %s: context %q does not exist; available contexts: %s", from, context, contextNamesText(file))
	}
	if cluster := file.Clusters[file.Contexts[context].Cluster]; cluster != nil && !isProxyURL(cluster.ProxyURL) {
		return nil, "", fmt.Errorf("kubeconfig %s, context %q: proxy-url must be an http, https or socks5 URL", from, context)
	}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*file, context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig %s, context %q: %w", from, context, err)
	}
	cfg.UserAgent = apiserver.UserAgent()
	return cfg, from + ", context " + context + configWarnings(cfg), nil
}

// isProxyURL reports whether client-go accepts a proxy-url. client-go's own error
// quotes the URL, which may contain a password.
func isProxyURL(text string) bool {
	u, err := url.Parse(text)
	return text == "" || err == nil && slices.Contains([]string{"http", "https", "socks5"}, u.Scheme)
}

// loadError returns why a kubeconfig cannot be loaded. The decoder's own error may
// quote secrets from the file.
func loadError(rules *clientcmd.ClientConfigLoadingRules, err error) error {
	for _, path := range append(rules.Precedence, rules.ExplicitPath) {
		var unreadable *fs.PathError
		if _, err := clientcmd.LoadFromFile(path); fileExists(path) && errors.As(err, &unreadable) {
			return unreadable
		}
	}
	where := ""
	if line := regexp.MustCompile(`\bline \d+\b`).FindString(err.Error()); line != "" {
		where = ", " + line
	}
	return fmt.Errorf("not a valid kubeconfig%s (check it with kubectl config view)", where)
}

// contextNamesText lists the names of the contexts in a kubeconfig.
func contextNamesText(file *api.Config) string {
	var all []string
	for name := range file.Contexts {
		all = append(all, fmt.Sprintf("%q", name))
	}
	slices.Sort(all)
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all[:min(len(all), 20)], ", ")
}

// configWarnings lists what the user should know about a configuration.
func configWarnings(cfg *rest.Config) string {
	var b strings.Builder
	if cfg.ExecProvider != nil {
		fmt.Fprintf(&b, ", which runs %s for credentials", cfg.ExecProvider.Command)
	}
	if cfg.Insecure {
		b.WriteString(", which disables verification of the server's certificate (insecure-skip-tls-verify)")
	}
	if strings.HasPrefix(cfg.Host, "http://") {
		b.WriteString(", without TLS, so no credentials are sent")
	}
	return b.String()
}

// podConfig returns the configuration of a client in a pod. client-go reads the token again
// when its file changes. rest.InClusterConfig is not used, because it reads the process's
// environment and ignores a certificate that it cannot read.
func podConfig(environ []string, dir string) (*rest.Config, string, error) {
	host, port := lookupEnv(environ, "KUBERNETES_SERVICE_HOST"), lookupEnv(environ, "KUBERNETES_SERVICE_PORT")
	ca, token := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	for _, path := range []string{token, ca} {
		f, err := os.Open(path)
		if err != nil {
			return nil, "", fmt.Errorf("in-cluster: %w: check the pod's automountServiceAccountToken, or use a kubeconfig", err)
		}
		f.Close()
	}
	return &rest.Config{
		Host:            "https://" + net.JoinHostPort(host, cmp.Or(port, "443")),
		TLSClientConfig: rest.TLSClientConfig{CAFile: ca},
		BearerTokenFile: token,
		UserAgent:       apiserver.UserAgent(),
	}, "in-cluster", nil
}

func homeDir(environ []string) string {
	if runtime.GOOS == "windows" {
		return cmp.Or(lookupEnv(environ, "HOME"), lookupEnv(environ, "USERPROFILE"))
	}
	return lookupEnv(environ, "HOME")
}

// lookupEnv returns the value of a variable. If the variable is set several times, the last
// value applies, as in a process.
func lookupEnv(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}
