// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// scenarioCloud is the environment of one run of a plugin. The plugin can reach an AWS cloud by its public
// host names, and no other network.
type scenarioCloud struct {
	*testcloud.AWS
	net *testcloud.FakeNetwork
	dir string // directory for the run's files
	env []string
}

// registryDomains are the domains of AWS's endpoints.
var registryDomains = []string{
	"*.amazonaws.com", "*.amazonaws.com.cn", "*.amazonaws.eu", "*.api.aws", "*.api.amazonwebservices.com.cn", "*.api.amazonwebservices.eu",
	"*.c2s.ic.gov", "*.sc2s.sgov.gov", "*.cloud.adc-e.uk", "*.csp.hci.ic.gov",
	"*.api.aws.ic.gov", "*.api.aws.scloud", "*.api.cloud-aws.adc-e.uk", "*.api.aws.hci.ic.gov",
}

func newScenarioCloud(dir string) (*scenarioCloud, error) {
	aws, err := testcloud.NewAWS()
	if err != nil {
		return nil, err
	}
	fakeNet, err := testcloud.NewFakeNetwork()
	if err != nil {
		aws.Close()
		return nil, err
	}
	for _, d := range registryDomains {
		fakeNet.Handle(d, aws)
	}
	// Only the metadata service is configured by its address. The plugin reaches the other services
	// by name.
	env := slices.DeleteFunc(aws.Environ(), func(s string) bool { return strings.HasPrefix(s, "AWS_ENDPOINT_URL") })
	env = append(append(env, fakeNet.Environ()...), "HOME="+dir)
	return &scenarioCloud{AWS: aws, net: fakeNet, dir: dir, env: env}, nil
}

func (c *scenarioCloud) Close() {
	c.AWS.Close()
	c.net.Close()
}

// setenv adds to the environment of the plugin.
func (c *scenarioCloud) setenv(entries ...string) { c.env = append(c.env, entries...) }

// writeFile writes a file and returns its path.
func (c *scenarioCloud) writeFile(name, content string) string {
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		panic(err)
	}
	return path
}

// observation is the compared result of a plugin's run in a scenario.
type observation struct {
	Outcome      string   // "answers", "fails" or "panics"
	Answer       *credentialOutput  // nil without a response
	Stdout       bool     // whether stdout was not empty
	Leak         bool     // whether standard error holds a secret
	Requests     []string // requests to the cloud, one line each
	UnknownHosts []string // other hosts that were queried
}

// credentialOutput is a decoded response.
type credentialOutput struct {
	APIVersion    string          `json:"apiVersion"`
	Kind          string          `json:"kind"`
	CacheKeyType  string          `json:"cacheKeyType"`
	CacheDuration *secondsLifetime       `json:"cacheDuration"`
	Auth          map[string]credentialAuth `json:"auth"`
}

type credentialAuth struct {
	Username string `json:"username"`
	Password string `json:"password"` // "open-sesame" from the cloud, or a password of the scenario
}

// secondsLifetime is a cache duration, which may depend on the time of the run.
type secondsLifetime time.Duration

func (l *secondsLifetime) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	d, err := time.ParseDuration(text)
	*l = secondsLifetime(d)
	return err
}

// roughlyEqual reports whether two durations are equal, except for the seconds between two runs.
// Zero, which disables caching, only equals zero.
func roughlyEqual(a, b secondsLifetime) bool {
	if a == 0 || b == 0 {
		return a == b
	}
	return time.Duration(a-b).Abs() <= 2*time.Second
}

// observePlugin runs a program once in a scenario, with its own cloud.
func observePlugin(ctx context.Context, path string, s scenario, args []string, dir string) (*observation, error) {
	c, err := newScenarioCloud(dir)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s.prepare(c)
	cmd := plugin.Command{
		Path: path, Args: plugin.NewSecrets(append(slices.Clone(s.args), args...)...), Environ: c.env, Dir: dir,
		APIVersion: plugin.V1, Timeout: 3 * time.Minute,
	}
	// A plugin's errors are also observations.
	x, err := cmd.RunRaw(ctx, strings.NewReader(s.stdin()))
	if x.Started.IsZero() {
		return nil, err
	}
	return c.newObservation(x), nil
}

func (c *scenarioCloud) newObservation(x *plugin.Exchange) *observation {
	o := &observation{
		Outcome: "fails", Stdout: !x.Stdout.IsZero(), UnknownHosts: c.net.UnknownHosts(),
		Leak: x.StderrSecret || canary.FindMarker(x.Stderr) != "" || strings.Contains(x.Stderr, "open-sesame"),
	}
	switch {
	case x.ExitCode == 0:
		o.Outcome = "answers"
	case strings.Contains(x.Stderr, "panic: ") && strings.Contains(x.Stderr, "\ngoroutine "): // the SDK prints "panic: " too, but no stack trace
		o.Outcome = "panics"
	}
	dec := json.NewDecoder(strings.NewReader(x.Stdout.Reveal()))
	dec.DisallowUnknownFields()
	var a credentialOutput
	if dec.Decode(&a) == nil && !dec.More() {
		o.Answer = &a
	}
	slices.Sort(o.UnknownHosts)
	o.UnknownHosts = slices.Compact(o.UnknownHosts)
	for _, r := range c.Requests() {
		o.Requests = append(o.Requests, formatRequest(r))
	}
	o.Requests = mergeRepeated(o.Requests)
	return o
}

// mergeRepeated merges repeated lines into one, because the number of retries depends on the
// SDK's release.
func mergeRepeated(lines []string) []string {
	var out []string
	for _, l := range lines {
		again := l + ", and again"
		switch {
		case len(out) > 0 && out[len(out)-1] == l:
			out[len(out)-1] = again
		case len(out) > 0 && out[len(out)-1] == again:
		default:
			out = append(out, l)
		}
	}
	return out
}

// formatRequest formats the compared parts of a request. Headers with the SDK's name and its retry
// statistics are omitted.
func formatRequest(r testcloud.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil && net.ParseIP(name) != nil {
		host = "loopback"
	}
	parts := []string{r.Method + " " + host + r.Path}
	if len(r.Query) > 0 {
		parts = append(parts, "query "+r.Query.Encode())
	}
	for _, name := range []string{"X-Amz-Target", "Content-Type", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"} {
		if value := r.Header.Get(name); value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	for _, name := range []string{"X-Amz-Security-Token", "X-Aws-Ec2-Metadata-Token"} {
		if r.Header.Get(name) != "" {
			parts = append(parts, name)
		}
	}
	if sig, ok := testcloud.ParseAWSSignature(r.Header); ok {
		parts = append(parts, fmt.Sprintf("signed by %s for %s in %s", sig.KeyID, sig.Service, sig.Region))
	} else if r.Header.Get("Authorization") != "" {
		parts = append(parts, "Authorization")
	}
	return strings.Join(append(parts, formatBody(r)...), "; ")
}

// formatBody formats the compared parts of a request's body.
func formatBody(r testcloud.Request) []string {
	if len(r.Body) == 0 {
		return nil
	}
	if !strings.Contains(r.Header.Get("Content-Type"), "form") {
		return []string{"body " + string(r.Body)}
	}
	var fields []string
	for key, values := range r.Form() {
		for _, v := range values {
			if canary.FindMarker(v) != "" {
				v = "(the token)"
			}
			fields = append(fields, key+"="+v)
		}
	}
	slices.Sort(fields)
	return fields
}
