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

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/internal/secretfile"
)

// Load reads a configuration file with an exchange.
func Load(name string) (Options, error) {
	data, err := secretfile.ReadTrusted(name) // a user who can write this file controls who receives the token
	if err != nil {
		return Options{}, fmt.Errorf("read %w", err)
	}
	opts, err := Parse(data)
	if err != nil {
		return opts, fmt.Errorf("%s: %w", name, err)
	}
	return opts, nil
}

// Parse parses a YAML configuration strictly. Errors include the line but no values.
func Parse(data []byte) (Options, error) {
	var opts Options
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&opts); err != nil {
		return Options{}, yamlError(err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return Options{}, errors.New("more than one YAML document")
	}
	if opts.Exchange == nil {
		return Options{}, errors.New("exchange is missing; to use the token as the password, use --registry instead of a file")
	}
	if _, err := opts.Exchange.compileExchange(); err != nil {
		return Options{}, withLine(err, data)
	}
	return opts, nil
}

// withLine adds the line number to an error that begins with the name of a field.
func withLine(err error, data []byte) error {
	var document yaml.Node
	if yaml.Unmarshal(data, &document) != nil || len(document.Content) == 0 {
		return err
	}
	node, field := document.Content[0], "."+err.Error()
	line := node.Line
	for node != nil {
		line = node.Line
		node, field = childNode(node, field)
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// childNode returns the node for the first name or index in field, and the rest of field. It
// returns nil if there is no such node.
func childNode(node *yaml.Node, field string) (*yaml.Node, string) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		rest, found := strings.CutPrefix(field, "."+key.Value)
		if found && (rest == "" || strings.ContainsRune(".[: ", rune(rest[0]))) {
			value.Line = key.Line // report the line of the key
			return value, rest
		}
	}
	for i, element := range node.Content {
		if rest, found := strings.CutPrefix(field, fmt.Sprintf("[%d]", i)); found && node.Kind == yaml.SequenceNode {
			return element, rest
		}
	}
	return nil, ""
}

// yamlError returns the decoder's first error, without values and Go type names.
func yamlError(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("file is empty")
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
		{`(?s)^cannot (?:unmarshal|decode) !!(\w+).* into time\.Duration$`, `must be a duration such as 10m, not $1`},
		{`(?s)^cannot (?:unmarshal|decode) !!(\w+).*$`, `wrong type: $1`},
		{`(?s)^unknown anchor .*$`, `a value that begins with * is a YAML alias; quote the value`},
	} {
		if re := regexp.MustCompile(known.pattern); re.MatchString(message) {
			return errors.New(line + re.ReplaceAllString(message, known.say))
		}
	}
	return errors.New(line + message)
}
