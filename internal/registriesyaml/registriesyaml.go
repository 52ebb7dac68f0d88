// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package registriesyaml checks the registries.yaml of k3s and RKE2. When k3s or RKE2
// starts, it generates containerd's configuration from this file. Package containerd reads
// the generated configuration.
//
//	found, err := registriesyaml.Check(inroot.FS{}, "/etc/rancher/k3s/registries.yaml", "k3s")
package registriesyaml

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/finding"
	"github.com/regcred/regcred/internal/inroot"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/spelling"
	"github.com/regcred/regcred/internal/textedit"
	"github.com/regcred/regcred/internal/textfmt"
)

// maxSize limits the size of a file in bytes.
const maxSize = 1 << 20

// maxFindings limits the number of findings for a file.
const maxFindings = 50

// Check returns findings about a file of product, k3s or rke2. It returns an error,
// such as [io/fs.ErrNotExist], if it cannot read the file.
func Check(root inroot.FS, path, product string) ([]finding.Finding, error) {
	data, err := root.ReadFile(context.Background(), path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, regularfile.BareError(err))
	case len(data) > maxSize:
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxSize)
	}
	return CheckText(path, data, product), nil
}

// CheckText is like Check for the text of a file.
func CheckText(path string, data []byte, product string) []finding.Finding {
	c := &checker{path: path, product: product}
	doc, err := textedit.ParseYAML(data)
	switch {
	case err != nil:
		c.addFinding("registries-yaml", finding.SeverityError, errorLineNumber(err), "", "the file is not valid YAML, so %s does not start", product)
	case doc != nil && doc.Kind != yaml.MappingNode && doc.Tag != "!!null":
		c.addFinding("registries-yaml", finding.SeverityError, doc.Line, "use mirrors: and configs: as top-level keys", "the file has no keys, so %s does not start", product)
	case doc != nil:
		c.checkDocument(doc)
	}
	return c.found
}

// IsFile reports whether a file is a registries.yaml, by its name or its keys.
func IsFile(name string, data []byte) bool {
	if strings.HasSuffix(name, "registries.yaml") || strings.HasSuffix(name, "registries.yml") {
		return true
	}
	if len(data) > maxSize {
		return false
	}
	doc, err := textedit.ParseYAML(data)
	entries := mappingEntries(doc)
	if err != nil || textedit.IsJSON(data) {
		return false
	}
	known := 0
	for _, e := range entries {
		if slices.Contains(validKeys("top"), e.key) {
			known++
		} else if !strings.HasPrefix(e.key, "x-") {
			return false
		}
	}
	return known > 0 && slices.ContainsFunc(entries, func(e mappingEntry) bool { return e.key == "mirrors" || e.key == "configs" })
}

var errorLinePattern = regexp.MustCompile(`line (\d+)`)

// errorLineNumber returns the line number of a YAML error. The rest of the error is not shown,
// because it may quote the file.
func errorLineNumber(err error) int {
	m := errorLinePattern.FindStringSubmatch(err.Error())
	if m == nil {
		return 1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// checker collects findings about a file.
type checker struct {
	path, product string
	found         []finding.Finding
}

func (c *checker) addFinding(rule string, severity finding.Severity, line int, fix, format string, args ...any) {
	if len(c.found) < maxFindings {
		c.found = append(c.found, finding.Finding{Rule: rule, Severity: severity, File: c.path, Line: line, Message: fmt.Sprintf(format, args...), Fix: fix})
	}
}

// mappingEntry is a key-value pair in a mapping.
type mappingEntry struct {
	key   string
	line  int
	value *yaml.Node
}

func mappingEntries(n *yaml.Node) (list []mappingEntry) {
	if n = textedit.ResolveAlias(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		list = append(list, mappingEntry{n.Content[i].Value, n.Content[i].Line, textedit.ResolveAlias(n.Content[i+1])})
	}
	return list
}

// validKeys returns the valid keys of a mapping. place is the kind of mapping, such as "tls".
func validKeys(place string) []string {
	return map[string][]string{
		"top":     {"mirrors", "configs", "auths"},
		"mirrors": {"endpoint", "rewrite"},
		"configs": {"auth", "tls"},
		"auth":    {"username", "password", "auth", "identity_token"},
		"tls":     {"ca_file", "cert_file", "key_file", "insecure_skip_verify"},
	}[place]
}

// checkKeys reports unknown keys, except merge keys ("<<") and keys for anchors ("x-…").
func (c *checker) checkKeys(place string, n *yaml.Node) {
	for _, e := range mappingEntries(n) {
		if slices.Contains(validKeys(place), e.key) || e.key == "<<" || strings.HasPrefix(e.key, "x-") {
			continue
		}
		fix := "valid keys: " + strings.Join(validKeys(place), ", ")
		for _, near := range validKeys(place) {
			if spelling.Distance(strings.ToLower(e.key), near) <= 2 {
				fix = "write " + near
			}
		}
		c.addFinding("mirror-unknown-key", finding.SeverityWarning, e.line, fix, "%s ignores the key %q and everything below it", c.product, truncateKey(e.key))
	}
}

// truncateKey truncates a long key.
func truncateKey(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func (c *checker) checkDocument(doc *yaml.Node) {
	c.checkKeys("top", doc)
	var credentials []credential
	var mirrors []mappingEntry
	for _, top := range mappingEntries(doc) {
		for _, e := range mappingEntries(top.value) {
			switch {
			case top.key == "mirrors" && slices.Contains(validKeys("top"), e.key):
				c.addFinding("mirror-unknown-key", finding.SeverityWarning, e.line, fmt.Sprintf("move %s: to the top level of the file", e.key), "%s is below mirrors, so %s treats it as a registry host", e.key, c.product)
			case top.key == "mirrors":
				c.checkKeys("mirrors", e.value)
				c.checkHost(e)
				mirrors = append(mirrors, e)
			case top.key == "configs":
				c.checkKeys("configs", e.value)
				if auth := c.checkConfig(e); auth != nil {
					credentials = append(credentials, credential{e, auth})
				}
			}
		}
	}
	var endpoints, imageHosts []string
	for _, m := range mirrors {
		endpoints = append(endpoints, c.checkMirror(m, credentials)...)
		c.checkRewrite(m)
		if m.key != "*" && m.key != registry.DockerHub {
			imageHosts = append(imageHosts, m.key)
		}
	}
	for _, login := range credentials {
		c.checkCredential(login, endpoints, imageHosts)
	}
}

// credential is a host's entry in configs that has an auth table.
type credential struct {
	mappingEntry
	auth *yaml.Node
}

// checkConfig checks a host's settings and returns its auth table, or nil.
func (c *checker) checkConfig(host mappingEntry) (auth *yaml.Node) {
	for _, e := range mappingEntries(host.value) {
		if e.key == "auth" || e.key == "tls" {
			c.checkKeys(e.key, e.value)
		}
		if e.key == "auth" && len(mappingEntries(e.value)) > 0 {
			auth = e.value
		}
	}
	return auth
}

// checkCredential reports a credential that no request uses, or that the runtime cannot use.
func (c *checker) checkCredential(host credential, endpoints, imageHosts []string) {
	const rule = "mirror-own-login"
	if problem, fix := registry.CredentialKeyProblem(host.key, endpoints, imageHosts); problem != "" {
		c.addFinding(rule, finding.SeverityWarning, host.line, fix, "%s", problem)
	}
	fields := map[string]mappingEntry{}
	for _, e := range mappingEntries(host.auth) {
		if e.value != nil && e.value.Kind == yaml.ScalarNode && e.value.Tag != "!!null" && e.value.Value != "" {
			fields[e.key] = e
		}
	}
	auth, hasAuth := fields["auth"]
	password, hasPassword := fields["password"]
	_, hasUser := fields["username"]
	_, hasToken := fields["identity_token"]
	switch problem := registry.CredentialAuthProblem(auth.text()); {
	case hasUser && !hasPassword && !hasAuth:
		c.addFinding(rule, finding.SeverityWarning, fields["username"].line, "add password", "there is a username without a password, so an empty password is sent")
	case hasUser && hasAuth:
		c.addFinding(rule, finding.SeverityInfo, auth.line, "remove auth, or username and password", "auth is not used, because username is set")
	case hasUser:
	case hasToken:
	case hasAuth && problem != "":
		c.addFinding(rule, finding.SeverityError, auth.line, registry.CredentialAuthFix, "%s, so the runtime cannot use the credential", problem)
	case hasPassword && !hasAuth:
		c.addFinding(rule, finding.SeverityWarning, password.line, "add username", "a password without a username is not used, so requests are anonymous")
	}
}

func (e mappingEntry) text() string {
	if e.value == nil {
		return ""
	}
	return e.value.Value
}

// groupPattern matches a reference to a group in a replacement, as regexp.Expand reads it.
var groupPattern = regexp.MustCompile(`\$(?:\{(\w+)\}|(\w+))`)

// checkRewrite checks the rewrite rules of a host.
func (c *checker) checkRewrite(m mappingEntry) {
	for _, e := range mappingEntries(m.value) {
		if e.key != "rewrite" {
			continue
		}
		for _, rule := range mappingEntries(e.value) {
			c.checkRewriteRule(rule)
		}
	}
}

func (c *checker) checkRewriteRule(rule mappingEntry) {
	const name = "mirror-path"
	pattern, err := regexp.Compile(rule.key)
	if err != nil {
		c.addFinding(name, finding.SeverityWarning, rule.line, "correct the regular expression", "the pattern is not a valid regular expression, so it rewrites nothing")
		return
	}
	replacement := rule.text()
	for _, m := range groupPattern.FindAllStringSubmatch(strings.ReplaceAll(replacement, "$$", ""), -1) {
		group := m[1] + m[2]
		digits := strings.TrimRight(group, "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		n, err := strconv.Atoi(group)
		switch {
		case err == nil && n <= pattern.NumSubexp() || slices.Contains(pattern.SubexpNames(), group):
		case err == nil:
			c.addFinding(name, finding.SeverityWarning, rule.line, fmt.Sprintf("put the part that $%d stands for in parentheses", n), "the replacement uses $%d, but the pattern has %s, so $%d is replaced with nothing", n, textfmt.FormatCount(pattern.NumSubexp(), "group"), n)
		case digits != "" && digits != group:
			c.addFinding(name, finding.SeverityWarning, rule.line, fmt.Sprintf("write ${%s}%s", digits, strings.TrimPrefix(group, digits)), "the replacement uses a group named %s, which the pattern does not have, so it is replaced with nothing", truncateKey(group))
		default:
			c.addFinding(name, finding.SeverityWarning, rule.line, "use $1 for the first group", "the pattern has no group named %s, so it is replaced with nothing", truncateKey(group))
		}
	}
	if !strings.Contains(replacement, "$") && pattern.NumSubexp() > 0 && (replacement == "" || strings.HasSuffix(replacement, "/")) {
		c.addFinding(name, finding.SeverityWarning, rule.line, "add $1; if a shell removed it, quote the text with single quotes", "the replacement does not contain $1, so every image gets the same name")
	}
}

// checkHost reports a name that cannot be an image host.
func (c *checker) checkHost(e mappingEntry) {
	name, isURL := strings.CutPrefix(e.key, "https://")
	if !isURL {
		name, isURL = strings.CutPrefix(e.key, "http://")
	}
	host, _, path := strings.Cut(name, "/")
	const rule = "mirror-directory"
	switch {
	case isURL || path:
		c.addFinding(rule, finding.SeverityWarning, e.line, "write "+redactAddress(host), "no image reference uses the host %q", redactAddress(name))
	case host == "registry-1.docker.io" || host == "index.docker.io":
		c.addFinding(rule, finding.SeverityWarning, e.line, "use docker.io", "no image reference uses the host %s: Docker Hub images use docker.io", host)
	case host != strings.ToLower(host):
		c.addFinding(rule, finding.SeverityWarning, e.line, "write "+strings.ToLower(host), "image references use lower-case host names")
	}
}

// redactAddress returns an address without its user name and password.
func redactAddress(address string) string {
	return truncateKey(address[strings.LastIndexByte(address, '@')+1:])
}

// checkMirror checks the endpoints of a host, and returns their hosts.
func (c *checker) checkMirror(m mappingEntry, credentials []credential) (hosts []string) {
	for _, e := range mappingEntries(m.value) {
		if e.key != "endpoint" || e.value == nil {
			continue
		}
		for _, item := range e.value.Content {
			if host := c.checkEndpoint(textedit.ResolveAlias(item)); host != "" {
				hosts = append(hosts, host)
			}
		}
	}
	has := func(host string) bool {
		return slices.ContainsFunc(credentials, func(k credential) bool { return k.key == host })
	}
	own := slices.IndexFunc(credentials, func(k credential) bool { return k.key == m.key })
	if own >= 0 && m.key != registry.DockerHub && m.key != "*" && len(hosts) > 0 && !slices.ContainsFunc(hosts, has) {
		c.addFinding("mirror-own-login", finding.SeverityInfo, credentials[own].line, fmt.Sprintf("if the endpoint requires a credential, add one under configs: %q:", hosts[0]),
			"the credential under configs is for %s itself, but credentials are looked up by the endpoint's host, and configs has no credential for %s", m.key, strings.Join(hosts, ", "))
	}
	return hosts
}

// checkEndpoint checks an endpoint and returns its host and port.
func (c *checker) checkEndpoint(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Value == "" {
		return ""
	}
	address := n.Value
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		c.addFinding("mirror-path", finding.SeverityWarning, n.Line, "use https://HOST[:PORT]", "an endpoint is not a URL with a host")
		return ""
	}
	if path := strings.TrimSuffix(u.Path, "/"); path != "" && !strings.Contains(path+"/", "/v2/") {
		c.addFinding("mirror-path", finding.SeverityWarning, n.Line, fmt.Sprintf("add /v2 to the path (https://%s/v2%s), or use rewrite", u.Host, path),
			"the endpoint's path is used unchanged: %s receives requests for %s/NAME/manifests/TAG, without the /v2 that registries expect", u.Host, path)
	}
	if u.Host == registry.DockerHub { // k3s replaces it
		return registry.DockerHubServer
	}
	return u.Host
}
