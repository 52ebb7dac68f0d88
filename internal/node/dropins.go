// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"encoding/json"
	"maps"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// configFile is a file of a kubelet's configuration: that of --config, or one of
// --config-dir, which is a drop-in.
type configFile struct {
	path   string
	dropIn bool
}

// kubeletConfig is what the files of a kubelet's configuration come to.
type kubeletConfig struct {
	fields map[string]any
	from   map[string]string // by field, the file that has it last
}

// add reads the next file. A drop-in is a merge patch (RFC 7396), whose null takes
// back what was set.
// kubelet: cmd/kubelet/app/server.go, mergeKubeletConfigurations.
func (c *kubeletConfig) add(file configFile, data []byte) error {
	var fields map[string]any
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return err
	}
	if c.fields == nil {
		c.fields, c.from = map[string]any{}, map[string]string{}
	}
	for name := range fields {
		c.from[name] = file.path
	}
	if file.dropIn {
		patch(c.fields, fields)
	} else {
		maps.Copy(c.fields, fields)
	}
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

// decode puts the fields that v has into it.
func (c *kubeletConfig) decode(v any) error {
	data, err := json.Marshal(c.fields)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, v)
}
