// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"encoding/json"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// configFile is a file of a kubelet's configuration: that of --config, or one of
// --config-dir, which is a drop-in.
type configFile struct {
	path   string
	dropIn bool
}

// kubeletFields is what matters here of a KubeletConfiguration.
type kubeletFields struct {
	FeatureGates             map[string]bool `json:"featureGates,omitempty"`
	HealthzPort              *int32          `json:"healthzPort,omitempty"`
	HealthzBindAddress       string          `json:"healthzBindAddress,omitempty"`
	ImageServiceEndpoint     string          `json:"imageServiceEndpoint,omitempty"`
	ContainerRuntimeEndpoint string          `json:"containerRuntimeEndpoint,omitempty"`
}

// What fields are by default.
// kubelet: pkg/kubelet/apis/config/v1beta1/defaults.go.
const (
	defaultHealthzPort = 10248
	defaultHealthzBind = "127.0.0.1"
	defaultRuntime     = "unix:///run/containerd/containerd.sock"
)

// kubeletConfig is what the files of a kubelet's configuration come to.
type kubeletConfig struct {
	fields map[string]any
	from   map[string]string // by field, the file that has it last
}

// newKubeletConfig is that without files.
// kubelet: --config gets its defaults before drop-ins are merged, and what stands last is
// taken where names differ in case alone: HealthzPort of a drop-in has no effect.
func newKubeletConfig() kubeletConfig {
	return kubeletConfig{
		fields: map[string]any{"healthzPort": defaultHealthzPort, "healthzBindAddress": defaultHealthzBind, "containerRuntimeEndpoint": defaultRuntime},
		from:   map[string]string{},
	}
}

// add reads the next file. A drop-in is a merge patch (RFC 7396), whose null takes
// back what was set.
// kubelet: cmd/kubelet/app/server.go, mergeKubeletConfigurations. What --config has is
// read by the case of its names, and what the drop-ins make of it is not.
func (c *kubeletConfig) add(file configFile, data []byte) error {
	data, err := yaml.YAMLToJSON(data)
	if err != nil {
		return err
	}
	if !file.dropIn {
		var known kubeletFields
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &known); err != nil {
			return err
		}
		if data, err = json.Marshal(known); err != nil {
			return err
		}
	}
	var fields map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &fields); err != nil {
		return err
	}
	for name := range fields {
		c.from[name] = file.path
	}
	patch(c.fields, fields)
	return nil
}

// patch returns a value as a merge patch makes it; a mapping is changed itself.
func patch(value, by any) any {
	changes, ok := by.(map[string]any)
	if !ok {
		return by
	}
	fields, ok := value.(map[string]any)
	if !ok {
		fields = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(fields, name)
		} else {
			fields[name] = patch(fields[name], change)
		}
	}
	return fields
}

// decode returns the fields that matter here.
func (c *kubeletConfig) decode() (known kubeletFields, err error) {
	data, err := json.Marshal(c.fields)
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	return known, err
}
