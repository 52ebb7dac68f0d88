// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

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

// podDir is where a pod finds its own service account.
const podDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// ConfigOptions say where the API server is, and who asks it.
type ConfigOptions struct {
	Kubeconfig string   // path; "" means that of KUBECONFIG, the pod that this process runs in, or ~/.kube/config
	Context    string   // of the kubeconfig; "" means its current one
	Environ    []string // "key=value"; of the environment of this process, nothing is read here
}

// Config finds the configuration of a client, and says where it was found,
// for people: "/etc/kubernetes/kubelet.conf, context default", "in-cluster".
// It also says what a kubeconfig does that its reader should know of: run a
// program for its credentials, or not verify the server.
func Config(o ConfigOptions) (cfg *rest.Config, from string, err error) {
	return configIn(o, podDir)
}

// Namespace is the namespace of the configuration that [Config] finds: that of a
// kubeconfig's context, or of the pod. It is "default" where none is named.
func Namespace(o ConfigOptions) string { return namespaceIn(o, podDir) }

func namespaceIn(o ConfigOptions, podDir string) string {
	rules, _, inPod := source(o)
	if inPod {
		data, _ := os.ReadFile(filepath.Join(podDir, "namespace")) // a kubelet writes it beside the token
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

// source says where a configuration is: in the files of the rules, or that it is a pod's.
func source(o ConfigOptions) (rules *clientcmd.ClientConfigLoadingRules, from string, inPod bool) {
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

// configIn is Config with another place for a pod's service account.
func configIn(o ConfigOptions, podDir string) (cfg *rest.Config, from string, err error) {
	rules, from, inPod := source(o)
	if inPod {
		return podConfig(o.Environ, podDir)
	}
	if !slices.ContainsFunc(append(rules.Precedence, o.Kubeconfig), exists) {
		return nil, "", absent(o, from)
	}
	return fileConfig(rules, o.Context, from)
}

// absent is the error of a kubeconfig that is not there.
func absent(o ConfigOptions, from string) error {
	if o.Kubeconfig != "" || strings.HasPrefix(from, "KUBECONFIG=") {
		return fmt.Errorf("kubeconfig %s: no such file", from)
	}
	return fmt.Errorf("no kubeconfig: KUBECONFIG is not set, this is not a pod (KUBERNETES_SERVICE_HOST is not set), and %s does not exist", from)
}

// exists reports whether there is something to read, or to fail at.
func exists(path string) bool {
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
		return nil, "", fmt.Errorf("kubeconfig %s: current-context is not set; available contexts: %s", from, contexts(file))
	}
	if file.Contexts[context] == nil {
		return nil, "", fmt.Errorf("kubeconfig %s: context %q does not exist; available contexts: %s", from, context, contexts(file))
	}
	if cluster := file.Clusters[file.Contexts[context].Cluster]; cluster != nil && !isProxyURL(cluster.ProxyURL) {
		return nil, "", fmt.Errorf("kubeconfig %s, context %q: proxy-url must be an http, https or socks5 URL", from, context)
	}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*file, context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig %s, context %q: %w", from, context, err)
	}
	cfg.UserAgent = apiserver.UserAgent()
	return cfg, from + ", context " + context + remarks(cfg), nil
}

// isProxyURL reports whether client-go takes a proxy-url. Its error would quote
// the URL, in which there may be a password.
func isProxyURL(text string) bool {
	u, err := url.Parse(text)
	return text == "" || err == nil && slices.Contains([]string{"http", "https", "socks5"}, u.Scheme)
}

// loadError says why a kubeconfig does not load, without what a decoder quotes
// of the file, which has secrets.
func loadError(rules *clientcmd.ClientConfigLoadingRules, err error) error {
	for _, path := range append(rules.Precedence, rules.ExplicitPath) {
		var unreadable *fs.PathError
		if _, err := clientcmd.LoadFromFile(path); exists(path) && errors.As(err, &unreadable) {
			return unreadable
		}
	}
	where := ""
	if line := regexp.MustCompile(`\bline \d+\b`).FindString(err.Error()); line != "" {
		where = ", " + line
	}
	return fmt.Errorf("not a valid kubeconfig%s (check it with kubectl config view)", where)
}

// contexts names those of a kubeconfig.
func contexts(file *api.Config) string {
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

// remarks are what a reader should know of a configuration.
func remarks(cfg *rest.Config) string {
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

// podConfig is the configuration of a client in a pod. Its token is read again
// when the file changes. (rest.InClusterConfig reads the environment of the
// process, and goes on without a certificate that cannot be read.)
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

// credentialsOf says what a client shows the API server, without showing it.
func credentialsOf(cfg *rest.Config) string {
	switch {
	case cfg.ExecProvider != nil:
		return "those that " + cfg.ExecProvider.Command + " gives"
	case cfg.AuthProvider != nil:
		return "the auth provider " + cfg.AuthProvider.Name
	case cfg.BearerTokenFile != "":
		return "the token in " + cfg.BearerTokenFile
	case cfg.BearerToken != "":
		return "a bearer token"
	case cfg.CertFile != "":
		return "the certificate " + cfg.CertFile
	case len(cfg.CertData) > 0:
		return "a client certificate"
	case cfg.Username != "":
		return "a user name and password"
	}
	return "there are none"
}

func homeDir(environ []string) string {
	if runtime.GOOS == "windows" {
		return cmp.Or(lookupEnv(environ, "HOME"), lookupEnv(environ, "USERPROFILE"))
	}
	return lookupEnv(environ, "HOME")
}

// lookupEnv returns the last value of a variable, as a process gets it.
func lookupEnv(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v
		}
	}
	return ""
}
