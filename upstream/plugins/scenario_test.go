// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugins

import (
	"encoding/json"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/protocol"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// scenario is an input and an environment with which both plugins are run.
type scenario struct {
	name string

	image       string // image in the v1 request; "" means private
	token       string // service account token in the request
	annotations map[string]string
	request     *string // standard input, instead of a request with the fields above

	noKeys  bool     // no access key in the environment
	env     []string // added to the environment
	args    []string
	ourArgs []string          // additional arguments of regcred's plugin
	arrange func(*scenarioCloud)      // changes the cloud before the run
	faults  []testcloud.Fault // faults that the cloud injects
	slow    bool              // takes more than 20 s; only run with -slow
}

// privateRepository is an image in a private registry, for scenarios that do not test hosts.
const privateRepository = "111122223333.dkr.ecr.us-west-2.amazonaws.com/team/app"

func (s scenario) prepare(c *scenarioCloud) {
	if !s.noKeys {
		c.setenv("AWS_ACCESS_KEY_ID="+staticAccessKey, "AWS_SECRET_ACCESS_KEY="+canary.EnvSecret)
	}
	c.setenv(s.env...)
	for _, f := range s.faults {
		c.Inject(f)
	}
	if s.arrange != nil {
		s.arrange(c)
	}
}

func (s scenario) stdin() string {
	if s.request != nil {
		return *s.request
	}
	image := s.image
	if image == "" {
		image = privateRepository
	}
	req := map[string]any{"apiVersion": plugin.V1, "kind": protocol.KindRequest, "image": image}
	if s.token != "" {
		req["serviceAccountToken"] = s.token
	}
	if s.annotations != nil {
		req["serviceAccountAnnotations"] = s.annotations
	}
	data, err := json.Marshal(req)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// groupScenarios prefixes the names of scenarios with a heading.
func groupScenarios(heading string, list ...scenario) []scenario {
	for i := range list {
		list[i].name = heading + ": " + list[i].name
	}
	return list
}
