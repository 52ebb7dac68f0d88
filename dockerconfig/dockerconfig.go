// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerconfig

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/regcred/regcred/internal/dockerjson"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/plugin"
)

// Format is the format of a docker credential file.
type Format int

// The formats.
const (
	ConfigJSON Format = iota // config.json, as in secrets of type kubernetes.io/dockerconfigjson
	DockerCfg                // .dockercfg, as in secrets of type kubernetes.io/dockercfg
)

// Parse decodes a file as the kubelet does and returns its credentials by key. As in
// the kubelet (pkg/credentialprovider/config.go), one invalid entry makes the whole
// file invalid. Errors contain the position, but no values.
func Parse(data []byte, format Format) (map[string]plugin.AuthConfig, error) {
	var file struct {
		Auths map[string]configEntry
		// The kubelet rejects a file with headers that are not strings.
		HTTPHeaders map[string]string `json:"HttpHeaders"`
	}
	var target any = &file
	layout := dockerjson.LayoutKubelet
	if format == DockerCfg {
		target, layout = &file.Auths, dockerjson.LayoutKubeletLegacy
	}
	if err := checkEntries(data); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, target); err != nil {
		return nil, dockerjson.FirstProblem(data, err, layout)
	}
	auths := make(map[string]plugin.AuthConfig, len(file.Auths))
	for key, e := range file.Auths {
		auths[key] = plugin.AuthConfig(e)
	}
	return auths, nil
}

// maxSeparators limits the number of commas and braces in a file. For an entry of eight bytes, such
// as "a":{}, the decoder needs several hundred bytes of memory.
const maxSeparators = 1 << 17

// checkEntries returns an error for a small file that would need a lot of memory to
// decode.
func checkEntries(data []byte) error {
	if n := bytes.Count(data, []byte(",")) + bytes.Count(data, []byte("{")); n > maxSeparators {
		return &regularfile.LimitError{Msg: fmt.Sprintf("the file contains more than %d commas and braces: check that it is a docker config file", maxSeparators)}
	}
	return nil
}

type configEntry plugin.AuthConfig

func (e *configEntry) UnmarshalJSON(data []byte) error {
	var raw struct {
		Username string
		Password string
		Email    string // unused, but the kubelet rejects a file in which it is not a string
		Auth     string
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	e.Username, e.Password = raw.Username, plugin.NewSecret(raw.Password)
	if raw.Auth == "" {
		return nil
	}
	user, password, err := dockerjson.DecodeAuth(raw.Auth)
	e.Username, e.Password = user, plugin.NewSecret(password)
	return err
}
