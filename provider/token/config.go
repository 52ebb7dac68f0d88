// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package token

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/internal/secretfile"
)

// file is what a configuration file may hold.
type file struct {
	Registries    []string       `yaml:"registries"`
	Username      string         `yaml:"username"`
	Audience      string         `yaml:"audience"`
	Optional      bool           `yaml:"optional"`
	CacheDuration *time.Duration `yaml:"cacheDuration"`
	Exchange      *Exchange      `yaml:"exchange"`
}

// Load reads a configuration file, which says how tokens are exchanged.
func Load(name string) (Options, error) {
	files, err := secretfile.Read(name)
	if err != nil {
		return Options{}, fmt.Errorf("read %w", err)
	}
	opts, err := Parse(files[0].Data)
	if err != nil {
		return opts, fmt.Errorf("%s: %w", name, err)
	}
	return opts, nil
}

// Parse reads a configuration in YAML, strictly. Errors name the line, and
// hold no values.
func Parse(data []byte) (Options, error) {
	var f file
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil {
		return Options{}, yamlError(err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Options{}, errors.New("there is a second document, which would be ignored")
	}
	if f.Exchange == nil {
		return Options{}, errors.New("exchange is missing: a token that is passed through needs no file, but --registry")
	}
	return Options{
		Registries: f.Registries, Username: f.Username, Audience: f.Audience,
		Optional: f.Optional, CacheDuration: f.CacheDuration, Exchange: f.Exchange,
	}, nil
}

// yamlError says in our words what the decoder found first, without the values
// and the Go types that it names.
func yamlError(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) && len(wrong.Errors) > 0 {
		text = wrong.Errors[0]
	}
	line, message := "", text
	if m := regexp.MustCompile(`(?s)^(line \d+: )(.*)$`).FindStringSubmatch(text); m != nil {
		line, message = m[1], m[2]
	}
	for _, known := range []struct{ pattern, say string }{
		{`^field (\S+) not found in type .*$`, `unknown field "$1"`},
		{`(?s)^cannot (?:unmarshal|decode) !!(\w+).* into time\.Duration$`, `$1, but must be a duration such as 10m`},
		{`(?s)^cannot (?:unmarshal|decode) !!(\w+).*$`, `a value of the wrong type: $1`},
		{`(?s)^unknown anchor .*$`, `a value that begins with * is an alias in YAML: put it in quotes`},
	} {
		if re := regexp.MustCompile(known.pattern); re.MatchString(message) {
			return errors.New(line + re.ReplaceAllString(message, known.say))
		}
	}
	return errors.New(line + message)
}
