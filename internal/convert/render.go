// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/regcred/regcred/internal/entries"
	"github.com/regcred/regcred/internal/textedit"
	"github.com/regcred/regcred/plugin"
)

// renderProviders returns a file with count providers, beginning at index first. It returns
// nil if they cannot be encoded, which verifyFiles then reports.
func (c *conversion) renderProviders(first, count int, format Format) []byte {
	doc := entries.NewDocument(c.res.Providers[first:][:count])
	if format == JSON {
		return []byte(textedit.EncodeJSON(doc, "", "  ") + "\n")
	}
	var out bytes.Buffer
	var n yaml.Node
	if n.Encode(doc) != nil {
		return nil
	}
	quoteAmbiguous(&n)
	for i, p := range c.res.Source.Providers[first:][:count] {
		if p.APIVersion == plugin.OutOfTree {
			addZeroCacheComment(textedit.SequenceItem(textedit.MappingValue(&n, "providers"), i))
		}
	}
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if enc.Encode(&n) != nil || enc.Close() != nil {
		return nil
	}
	return out.Bytes()
}

// zeroCacheComment explains the defaultCacheDuration of a converted provider of the
// out-of-tree proposal.
const zeroCacheComment = `# The out-of-tree proposal cached a response until its expirationTimestamp, and
# not at all without one. With cacheDuration, a default of 0s has the same
# effect; a longer duration applies to responses that do not set one.`

func addZeroCacheComment(provider *yaml.Node) {
	for i := 0; i < len(provider.Content); i += 2 {
		if key := provider.Content[i]; key.Value == "defaultCacheDuration" {
			key.HeadComment = zeroCacheComment
		}
	}
}

// quoteAmbiguous quotes strings that some YAML version would read as a different type.
func quoteAmbiguous(n *yaml.Node) {
	if n.Tag == "!!str" && n.Kind == yaml.ScalarNode {
		n.Style = 0
		if !isPlainText(n.Value) {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	for _, child := range n.Content {
		quoteAmbiguous(child)
	}
}

// plainTextPattern matches words that begin with a letter, and durations.
var plainTextPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9./_-]*$|^[0-9]+(\.[0-9]+)?(h|m|s)[0-9.hms]*$`)

func isPlainText(s string) bool {
	words := []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
	return plainTextPattern.MatchString(s) && !slices.Contains(words, strings.ToLower(s))
}
