// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package config

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/plugin"
)

// Provider is one entry of a [Config]: an executable, the images it is asked
// about, and how it is called. The JSON names are those of the kubelet's
// types; [Load] is the only decoder.
//
// One of the predecessor has the APIVersion [plugin.OutOfTree], its
// imageMatchers as MatchImages, its extraArgs as Env, with names in upper
// case, and a DefaultCacheDuration of 0.
type Provider struct {
	Name                 string           `json:"name"`
	MatchImages          []string         `json:"matchImages"`
	DefaultCacheDuration *time.Duration   `json:"defaultCacheDuration"`
	APIVersion           string           `json:"apiVersion"`
	Args                 []plugin.Secret  `json:"args,omitempty"` // people put tokens there
	Env                  []EnvVar         `json:"env,omitempty"`
	TokenAttributes      *TokenAttributes `json:"tokenAttributes,omitempty"`
}

// EnvVar is an environment variable that a provider's plugin gets beside the
// host's environment. Values are secrets: people put tokens there.
type EnvVar struct {
	Name  string        `json:"name"`
	Value plugin.Secret `json:"value"`
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

// Command returns p's plugin as a kubelet would run it from binDir. The fields
// that a configuration does not set, such as Dir and Timeout, are left to the
// caller.
func (p *Provider) Command(binDir string) plugin.Command {
	c := plugin.Command{Path: filepath.Join(binDir, p.Name), Name: p.Name, Args: p.Arguments(), APIVersion: p.APIVersion}
	for _, v := range p.Env {
		c.Env = append(c.Env, v.Name+"="+string(v.Value))
	}
	return c
}

// Arguments returns Args as what is executed: secrets in clear, perhaps.
func (p *Provider) Arguments() []string {
	args := make([]string, len(p.Args))
	for i, a := range p.Args {
		args[i] = string(a)
	}
	return args
}

// Predecessor reports whether p speaks the protocol of the predecessor of
// KEP-2133, in which case no kubelet runs it.
func (p *Provider) Predecessor() bool { return p.APIVersion == plugin.OutOfTree }

// Format writes v with its value masked, whatever the verb.
func (v EnvVar) Format(f fmt.State, verb rune) {
	type plain EnvVar
	fmt.Fprintf(f, fmt.FormatString(f, verb), plain(v))
}

// Format writes the name of p, whatever the verb: values of args and env are secrets.
func (p Provider) Format(f fmt.State, _ rune) { io.WriteString(f, p.Name) }

// LogValue returns the name of p.
func (p Provider) LogValue() slog.Value { return slog.StringValue(p.Name) }
