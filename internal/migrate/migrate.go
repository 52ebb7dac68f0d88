// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package migrate plans the replacement of the cloud providers' plugins with the
// plugins of this repository. It returns the arguments that must be added to a
// configuration to keep its behavior.
//
//	plan := migrate.NewPlan(cfg, readFile)
//	files, err := convert.AddArgs(cfg, plan.Args())
//
// It reads the configuration and the plugins' cloud configuration, and runs no
// plugin.
package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/hostpattern"
	"github.com/regcred/regcred/internal/registry"
	"github.com/regcred/regcred/internal/secretfile"
	"github.com/regcred/regcred/plugin"
)

// Plan lists the changes that are needed to replace the plugins.
type Plan struct {
	ProviderCount int      `json:"providers"` // number of providers that use a cloud's plugin
	Changes       []Change `json:"changes"`
	Remarks       []Remark `json:"remarks"`
}

// Change is an argument that must be added to preserve the behavior.
type Change struct {
	index    int
	Provider string `json:"provider"`
	Arg      string `json:"arg"`
	Reason   string `json:"reason"`
}

// Remark is a fact for the operator, or a decision that the operator must make.
type Remark struct {
	Provider string `json:"provider"`
	Text     string `json:"text"`
}

// Args returns the changes' arguments, keyed by provider index.
func (p *Plan) Args() map[int][]string {
	args := map[int][]string{}
	for _, c := range p.Changes {
		args[c.index] = append(args[c.index], c.Arg)
	}
	return args
}

// NewPlan returns a plan for the providers that are named like a cloud's plugin.
// readFile reads a cloud configuration on the node.
func NewPlan(cfg *config.Config, readFile func(path string) (secretfile.File, error)) *Plan {
	plan := &Plan{Changes: []Change{}, Remarks: []Remark{}}
	for i := range cfg.Providers {
		if cloud := registry.CloudOfPlugin(cfg.Providers[i].Name); cloud != nil {
			plan.ProviderCount++
			e := &cloudProvider{plan: plan, index: i, Provider: &cfg.Providers[i], cloud: cloud, readFile: readFile}
			e.planChanges()
		}
	}
	return plan
}

// cloudProvider is a provider that uses a cloud's plugin.
type cloudProvider struct {
	*config.Provider
	plan     *Plan
	index    int
	cloud    *registry.Cloud
	readFile func(string) (secretfile.File, error)
}

// addArg adds an argument unless its flag is already set.
func (e *cloudProvider) addArg(arg, format string, args ...any) {
	flag, _, valued := strings.Cut(arg, "=")
	if has, _ := e.flagValues(flag); has && (!valued || flag != "--allow-host") {
		return
	}
	if !slices.Contains(e.plan.Args()[e.index], arg) {
		e.plan.Changes = append(e.plan.Changes, Change{e.index, e.Name, arg, fmt.Sprintf(format, args...)})
	}
}

func (e *cloudProvider) addRemark(format string, args ...any) {
	e.plan.Remarks = append(e.plan.Remarks, Remark{e.Name, fmt.Sprintf(format, args...)})
}

// flagValues returns the values of a flag.
func (e *cloudProvider) flagValues(name string) (has bool, values []string) {
	for _, a := range registry.FlagValues(e.Arguments(), name) {
		has, values = true, append(values, a.Value)
	}
	return has, values
}

// allowedHosts returns the values of --allow-host: hosts that the plugin serves in addition
// to its cloud's. Google's plugin takes a list of hosts. Amazon's plugin takes a region
// after each host.
func (e *cloudProvider) allowedHosts() (hosts []string) {
	_, values := e.flagValues("--allow-host")
	for _, value := range values {
		for host := range strings.SplitSeq(value, ",") {
			host, _, _ = strings.Cut(host, "=")
			hosts = append(hosts, strings.ToLower(host))
		}
	}
	return hosts
}

// mirroredHosts returns the hosts whose images come from a mirror.
func (e *cloudProvider) mirroredHosts() (hosts []string) {
	for _, m := range e.cloud.MirrorArgs(e.Arguments()) {
		hosts = append(hosts, m.Host)
	}
	return hosts
}

func (e *cloudProvider) planChanges() {
	if e.APIVersion == plugin.OutOfTree {
		e.addRemark("this entry is from a RegistryCredentialConfig, which the upstream plugins do not support")
	}
	switch e.cloud.Name {
	case registry.Amazon:
		e.planAmazon()
	case registry.Google:
		e.planGoogle()
	case registry.Azure:
		e.planAzure()
	}
}

// classifyHosts finds patterns for hosts that the plugin does not serve. foreign lists
// hosts that have one owner and can be allowed individually. wide is true if another
// pattern matches such hosts too.
func (e *cloudProvider) classifyHosts() (foreign []string, wide bool) {
	served := append(e.allowedHosts(), e.mirroredHosts()...)
	for _, pattern := range e.MatchImages {
		host, reach := registry.PatternHost(pattern), e.cloud.ClassifyPattern(pattern, served...)
		switch {
		case reach == registry.ScopeMixed, reach == registry.ScopeForeign && hostpattern.Validate(host) != nil:
			wide = true
		case reach == registry.ScopeForeign && !slices.Contains(foreign, host):
			foreign = append(foreign, host)
		}
	}
	return foreign, wide
}

// allowForeignHosts adds the foreign hosts, because the upstream plugins of Amazon and
// Google serve all hosts.
func (e *cloudProvider) allowForeignHosts() {
	if has, values := e.flagValues("--any-host"); has && values[len(values)-1] != "false" {
		return
	}
	foreign, wide := e.classifyHosts()
	for _, host := range foreign {
		e.addArg("--allow-host="+host, "matchImages matches %s, which does not belong to %s; the upstream plugin serves any host, but regcred's plugin serves only the hosts that you allow",
			excerpt.TruncateValue(host), e.cloud.Owner)
	}
	if wide {
		e.addArg("--other-hosts="+string(registry.OtherHostsEmpty),
			"matchImages matches third-party hosts; the upstream plugin sends them the password, but regcred's plugin fails without this flag")
		e.addRemark("if a wide pattern matches an alias of %s, allow the alias with --allow-host; --any-host sends the password to every host, as the upstream plugin does", e.cloud.Owner)
	}
}

func (e *cloudProvider) planAmazon() {
	e.allowForeignHosts()
	if e.TokenAttributes != nil {
		e.addArg("--session-name=ecr-credential-provider",
			"the upstream plugin uses this name for all STS sessions, and trust policies might require it, but regcred's plugin uses the service account's name")
	}
	if slices.ContainsFunc(e.MatchImages, hasOwnEndpoint) {
		e.addArg("--plain-endpoints", "for dual-stack and FIPS registries, the upstream plugin uses the standard endpoints, which egress allowlists and "+
			"PrivateLink might be set up for, but regcred's plugin uses the dual-stack and FIPS endpoints. Omit this flag on IPv6-only nodes or if FIPS is required")
	}
}

// hasOwnEndpoint reports whether a pattern matches dual-stack or FIPS registries, whose
// host names determine the API endpoint.
func hasOwnEndpoint(pattern string) bool {
	host := registry.PatternHost(pattern)
	return strings.Contains(host, "ecr-fips.") || strings.Contains(host, ".on.aws") || strings.Contains(host, ".on.amazonwebservices.")
}

func (e *cloudProvider) planGoogle() {
	e.allowForeignHosts()
	e.addRemark("on failure, regcred's plugin exits with status 1 and the kubelet logs the cause, but the upstream plugin returns an empty response; pulls behave the same")
}
