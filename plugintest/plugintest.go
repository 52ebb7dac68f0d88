// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugintest

import (
	"context"
	"slices"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/plugin"
)

// Severity says what a [Finding] means for a plugin. The values are stable:
// they appear in `-o json`.
type Severity string

// The severities, in rising order.
const (
	Pass    Severity = "pass"    // it is as it should be
	Skip    Severity = "skip"    // it could not be checked; Got says why
	Info    Severity = "info"    // worth knowing
	Warning Severity = "warning" // it works, but not always, or dangerously
	Error   Severity = "error"   // a kubelet gets no credential, a wrong one, or leaks one
)

// Finding is what one check found. It never holds a password, a token, or
// what the plugin wrote to standard output.
type Finding struct {
	Check    string   `json:"check"` // the id of a [Check]
	Severity Severity `json:"severity"`
	Did      string   `json:"did,omitempty"`     // what was done; empty if the check was skipped
	Got      string   `json:"got"`               // what came back, or why the check was skipped
	Kubelet  string   `json:"kubelet,omitempty"` // what a kubelet makes of it
	Fix      string   `json:"fix,omitempty"`     // how to mend it
}

// Check describes one check.
type Check struct {
	ID       string   `json:"id"`       // stable, kebab-case
	Title    string   `json:"title"`    // what a good plugin does
	Severity Severity `json:"severity"` // the worst that it can find
	Why      string   `json:"why"`      // what happens otherwise
	Source   string   `json:"source"`   // where it was asked for, or seen to go wrong
}

// Checks returns all checks in the order in which they run.
func Checks() []Check {
	var list []Check
	for _, c := range checks() {
		list = append(list, c.Check)
	}
	return list
}

// DefaultImage is asked for where Options name no image.
const DefaultImage = "registry.example/team/app"

// DefaultConcurrency is how many plugins run side by side in the check "concurrent".
const DefaultConcurrency = 20

// Options say how a plugin is checked. The zero value is usable, and best for
// a plugin that answers for every image.
type Options struct {
	// Images are images that the plugin has credentials for, without tag or
	// digest, host included: "registry.example/team/app". The first is the one
	// asked for; none means [DefaultImage]. A second one of the same registry
	// and a third of another let more be said about cacheKeyType.
	Images []string

	// ServiceAccount is set for a plugin that is configured with
	// tokenAttributes: then every request in v1 carries the token. nil means
	// that it is not; then only the checks of service-account mode send a
	// token, a made-up one.
	ServiceAccount *ServiceAccount

	// Concurrency is how many plugins run side by side; 0 means
	// [DefaultConcurrency]. It is at most 1,000.
	Concurrency int

	// Only are the ids of the checks to run; empty means all. [Run] ignores
	// ids that do not exist: see [Checks].
	Only []string

	// Progress, if not nil, is called before each check, with the number of
	// checks done and to do. It is called by one goroutine at a time.
	Progress func(done, total int, id string)
}

// ServiceAccount is the identity that a plugin in service-account mode is given (KEP-4412).
type ServiceAccount struct {
	// Token is one for the audience that the plugin expects. If it is empty,
	// one is made up, which no token service accepts.
	Token plugin.Secret

	// Audience is that of a token that is made up, as in tokenAttributes; ""
	// means "conformance.example".
	Audience string

	// Annotations are those of the service account that the configuration selects.
	Annotations map[string]string

	// CacheType is that of tokenAttributes. "" means that it is not known:
	// then an answer that needs one of the two is a warning.
	CacheType config.TokenCacheType

	// Required says that the plugin needs a token
	// (tokenAttributes.requireServiceAccount): without one, it has to refuse
	// or to answer without credentials.
	Required bool
}

// Run checks the plugin that cmd runs. There is at least one finding for each
// check, in the order of [Checks]; a check that passed or was skipped has
// exactly one. What is found is no error: Run itself cannot fail, and when ctx
// ends, the checks that are left are skipped. So are those that would run the
// plugin again when it has hung three times, or taken more than half a minute.
//
// cmd.Path is required. cmd.APIVersion may be empty: then the first of v1,
// v1beta1 and v1alpha1 that the plugin answers is used where the version does
// not matter. With [plugin.OutOfTree] the plugin is examined in that protocol,
// and the checks of what it does not have are skipped. cmd.Timeout bounds each run; a plugin that takes longer than
// that is at fault, so the kubelet's minute, which is the default, is right
// except in tests. cmd.Dir and cmd.Environ are what the plugin inherits,
// except in the checks that change them; cmd.Env and cmd.Args are kept in
// every run. cmd.Grace is ignored.
func Run(ctx context.Context, cmd plugin.Command, opts Options) []Finding {
	s := newSuite(ctx, cmd, opts)
	chosen := slices.DeleteFunc(checks(), func(c check) bool {
		// Every other check is skipped if the plugin cannot run at all.
		return len(opts.Only) > 0 && !slices.Contains(opts.Only, c.ID) && !(c.ID == "binary-runs" && s.broken())
	})
	var findings []Finding
	for i, c := range chosen {
		if opts.Progress != nil {
			opts.Progress(i, len(chosen), c.ID)
		}
		findings = append(findings, s.run(c)...)
	}
	return findings
}
