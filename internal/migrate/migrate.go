// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package migrate says which arguments this repository's plugins need in place
// of the clouds' own, so that a configuration that works goes on doing so.
//
//	plan := migrate.New(cfg, readFile)
//	files, err := convert.AddArgs(cfg, plan.Args())
//
// It looks at the configuration and at the cloud configuration that a plugin
// is given, and runs nothing.
package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/hostpattern/public"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/plugin"
)

// Plan is what a swap of plugins takes.
type Plan struct {
	Providers int      `json:"providers"` // how many have a plugin of a cloud
	Changes   []Change `json:"changes"`
	Remarks   []Remark `json:"remarks"`
}

// Change is an argument that keeps what works.
type Change struct {
	index    int
	Provider string `json:"provider"`
	Arg      string `json:"arg"`
	Reason   string `json:"reason"`
}

// Remark is what an operator has to know or decide.
type Remark struct {
	Provider string `json:"provider"`
	Text     string `json:"text"`
}

// Args are the arguments of the changes, by the provider's index.
func (p *Plan) Args() map[int][]string {
	args := map[int][]string{}
	for _, c := range p.Changes {
		args[c.index] = append(args[c.index], c.Arg)
	}
	return args
}

// New makes a plan for the providers whose name is that of a cloud's plugin.
// ReadFile reads a cloud configuration on the node.
func New(cfg *config.Config, readFile func(path string) (secretfile.File, error)) *Plan {
	plan := &Plan{Changes: []Change{}, Remarks: []Remark{}}
	for i := range cfg.Providers {
		if cloud := registry.PluginCloud(cfg.Providers[i].Name); cloud != nil {
			plan.Providers++
			e := &entry{plan: plan, index: i, Provider: &cfg.Providers[i], cloud: cloud, readFile: readFile}
			e.look()
		}
	}
	return plan
}

// entry is a provider with a plugin of a cloud.
type entry struct {
	*config.Provider
	plan     *Plan
	index    int
	cloud    *registry.Cloud
	readFile func(string) (secretfile.File, error)
}

// need adds an argument, unless its flag is there.
func (e *entry) need(arg, format string, args ...any) {
	flag, _, valued := strings.Cut(arg, "=")
	if has, _ := e.flag(flag); has && (!valued || flag != "--allow-host") {
		return
	}
	if !slices.Contains(e.plan.Args()[e.index], arg) {
		e.plan.Changes = append(e.plan.Changes, Change{e.index, e.Name, arg, fmt.Sprintf(format, args...)})
	}
}

func (e *entry) remark(format string, args ...any) {
	e.plan.Remarks = append(e.plan.Remarks, Remark{e.Name, fmt.Sprintf(format, args...)})
}

// flag returns the values of a flag among the arguments.
func (e *entry) flag(name string) (has bool, values []string) {
	for _, a := range registry.FlagValues(e.Arguments(), name) {
		has, values = true, append(values, a.Value)
	}
	return has, values
}

// allowed are the hosts that are served beside the cloud's. Google's plugin
// takes several, and Amazon's a region behind each.
func (e *entry) allowed() (hosts []string) {
	_, values := e.flag("--allow-host")
	for _, value := range values {
		for host := range strings.SplitSeq(value, ",") {
			host, _, _ = strings.Cut(host, "=")
			hosts = append(hosts, strings.ToLower(host))
		}
	}
	return hosts
}

// mirrored are the hosts whose images come from a mirror.
func (e *entry) mirrored() (hosts []string) {
	for _, m := range e.cloud.MirrorArgs(e.Arguments()) {
		hosts = append(hosts, m.Host)
	}
	return hosts
}

func (e *entry) look() {
	if e.APIVersion == plugin.OutOfTree {
		e.remark("this entry is from a RegistryCredentialConfig, which the upstream plugins do not support")
	}
	switch e.cloud.Name {
	case registry.Amazon:
		e.amazon()
	case registry.Google:
		e.google()
	case registry.Azure:
		e.azure()
	}
}

// hosts says of each pattern how the plugin that serves the cloud's hosts
// alone, and those that it is told, stands to it.
func (e *entry) hosts() (foreign []string, wide bool) {
	served := append(e.allowed(), e.mirrored()...)
	for _, pattern := range e.MatchImages {
		host, reach := registry.PatternHost(pattern), e.cloud.Reach(pattern, served...)
		switch {
		case reach == registry.Mixed, reach == registry.Foreign && public.Check(host) != nil:
			wide = true
		case reach == registry.Foreign && !slices.Contains(foreign, host):
			foreign = append(foreign, host)
		}
	}
	return foreign, wide
}

// allow keeps hosts that upstream's plugin of Amazon and Google serve because
// they serve all.
func (e *entry) allow() {
	if has, values := e.flag("--any-host"); has && values[len(values)-1] != "false" {
		return
	}
	foreign, wide := e.hosts()
	for _, host := range foreign {
		e.need("--allow-host="+host, "matchImages matches %s, which does not belong to %s; the upstream plugin serves any host, but regcred's plugin serves only the hosts that you allow",
			excerpt.Value(host), e.cloud.Owner)
	}
	if wide {
		e.need("--other-hosts="+string(registry.EmptyOthers),
			"matchImages matches third-party hosts; the upstream plugin sends them the password, but regcred's plugin fails without this flag")
		e.remark("if a wide pattern matches an alias of %s, allow the alias with --allow-host; --any-host sends the password to every host, as the upstream plugin does", e.cloud.Owner)
	}
}

func (e *entry) amazon() {
	e.allow()
	if e.TokenAttributes != nil {
		e.need("--session-name=ecr-credential-provider",
			"the upstream plugin uses this name for all STS sessions, and trust policies might require it, but regcred's plugin uses the service account's name")
	}
	if slices.ContainsFunc(e.MatchImages, hasOwnEndpoint) {
		e.need("--plain-endpoints", "for dual-stack and FIPS registries, the upstream plugin uses the standard endpoints, which egress allowlists and "+
			"PrivateLink might be set up for, but regcred's plugin uses the dual-stack and FIPS endpoints. Omit this flag on IPv6-only nodes or if FIPS is required")
	}
}

// hasOwnEndpoint reports whether a pattern is for registries whose names say
// how their API is to be reached.
func hasOwnEndpoint(pattern string) bool {
	host := registry.PatternHost(pattern)
	return strings.Contains(host, "ecr-fips.") || strings.Contains(host, ".on.aws") || strings.Contains(host, ".on.amazonwebservices.")
}

func (e *entry) google() {
	e.allow()
	e.remark("on failure, regcred's plugin exits with status 1 and the kubelet logs the cause, but the upstream plugin returns an empty response; pulls behave the same")
}
