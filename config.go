// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config is a CredentialProviderConfig: the providers of one file, or of a
// directory of files merged in lexical order (group kubelet.config.k8s.io,
// KEP-2133). Make one with [Load]; it is read-only afterwards and safe for
// concurrent use.
type Config struct {
	Providers []Provider

	path  string       // as given to Load
	files []configFile // in the order in which they were merged
	dir   bool         // path is a directory
}

// Provider is one entry of a [Config]: an executable, the images it is asked
// about, and how it is called. The JSON names are those of the kubelet's
// types; [Load] is the only decoder.
type Provider struct {
	Name                 string           `json:"name"`
	MatchImages          []string         `json:"matchImages"`
	DefaultCacheDuration *time.Duration   `json:"defaultCacheDuration"`
	APIVersion           string           `json:"apiVersion"`
	Args                 []string         `json:"args,omitempty"`
	Env                  []EnvVar         `json:"env,omitempty"`
	TokenAttributes      *TokenAttributes `json:"tokenAttributes,omitempty"`
}

// EnvVar is an environment variable that a provider's plugin gets beside the
// host's environment. Values are secrets: people put tokens there.
type EnvVar struct {
	Name  string `json:"name"`
	Value Secret `json:"value"`
}

// TokenAttributes puts a provider into service-account mode (KEP-4412).
type TokenAttributes struct {
	ServiceAccountTokenAudience          string         `json:"serviceAccountTokenAudience"`
	CacheType                            TokenCacheType `json:"cacheType"`
	RequireServiceAccount                *bool          `json:"requireServiceAccount"`
	RequiredServiceAccountAnnotationKeys []string       `json:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalServiceAccountAnnotationKeys []string       `json:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// TokenCacheType says what an answer in service-account mode is cached under.
type TokenCacheType string

const (
	// CachePerServiceAccount: answers are shared by the pods of one service account.
	CachePerServiceAccount TokenCacheType = "ServiceAccount"
	// CachePerToken: answers are kept per token. Required where the plugin
	// returns the token itself.
	CachePerToken TokenCacheType = "Token"
)

// configFile is one file of a Config, kept for its hash and for positions.
type configFile struct {
	name       string
	data       []byte
	apiVersion string // of the file itself, e.g. "kubelet.config.k8s.io/v1"
	first      int    // index in Config.Providers of its first provider
	count      int
}

// FieldError is a problem at one place of a configuration.
type FieldError struct {
	File   string
	Line   int    // from 1; 0 if unknown
	Column int    // in bytes, from 1; 0 if unknown
	Path   string // e.g. "providers[2].matchImages[0]"
	Value  string // the offending value; empty for values of env and args
	Msg    string // what is wrong and what to do
}

// Error is "file:line:column: path: message: \"value\"", without the parts that are unknown.
func (e *FieldError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
		}
		b.WriteString(": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Msg)
	if e.Value != "" {
		fmt.Fprintf(&b, ": %q", e.Value)
	}
	return b.String()
}

var errTODO = errors.New("skeleton")

// Load reads and decodes the configuration at path: one file, or a directory
// whose *.json, *.yaml and *.yml files are merged in lexical order. It
// accepts and rejects what kubelet 1.36 accepts and rejects
// (pkg/credentialprovider/plugin/config.go), except that files over 16 MiB
// are refused. It does not validate: see [Config.Validate].
//
// Errors are [*FieldError], several joined with [errors.Join].
func Load(path string) (*Config, error) { return nil, errTODO }

// Hash returns "sha256:" and the hex digest that the kubelet (1.34 and later)
// exposes as the label of kubelet_credential_provider_config_info.
func (c *Config) Hash() string { return "" }
