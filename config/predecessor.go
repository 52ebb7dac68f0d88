// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/regcred/regcred/plugin"
)

// The predecessor of KEP-2133, "Out-of-Tree Credential Providers", has a
// configuration of its own. Its text calls the kind RegistryCredentialConfig,
// its example credentialprovider; the version is v1alpha1 without a group.
const (
	kindPredecessor         = "RegistryCredentialConfig"
	kindPredecessorExample  = "credentialprovider"
	kindPredecessorProvider = "RegistryCredentialProvider"
	versionPredecessor      = plugin.OutOfTree
)

// predecessor reports whether a document is of the predecessor's kind.
func (m typeMeta) predecessor() bool {
	return m.Kind == kindPredecessor || m.Kind == kindPredecessorExample
}

// predecessor reports whether f is a file of the predecessor.
func (f *configFile) predecessor() bool {
	return typeMeta{Kind: f.Kind}.predecessor()
}

// predecessor reports whether provider i is the predecessor's: by its file or,
// in a Config that was not loaded, by its protocol.
func (c *Config) predecessor(i int) bool {
	if f, _ := c.fileOf(i); f != nil {
		return f.predecessor()
	}
	return c.Providers[i].predecessor()
}

// predecessor reports whether p speaks the predecessor's protocol.
func (p *Provider) predecessor() bool { return p.APIVersion == plugin.OutOfTree }

// predecessorProvider is a provider in a file of the predecessor.
type predecessorProvider struct {
	typeMeta
	Name          string    `json:"name"`
	ImageMatchers []string  `json:"imageMatchers"`
	ExtraArgs     extraArgs `json:"extraArgs"`
}

// typeAccepted reports whether p's own type, which may be left out, is one of the document's.
func (p *predecessorProvider) typeAccepted() bool {
	return slices.Contains(predecessorProviderKinds(), p.Kind) && slices.Contains(predecessorProviderVersions(), p.APIVersion)
}

func predecessorProviderKinds() []string {
	return []string{"", kindPredecessorProvider, kindPredecessorExample}
}

func predecessorProviderVersions() []string { return []string{"", versionPredecessor} }

// provider returns p as a [Provider]. The document caches an answer until its
// expirationTimestamp, and without one not at all: there is no default.
func (p *predecessorProvider) provider() Provider {
	out := Provider{
		Name: p.Name, MatchImages: p.ImageMatchers, APIVersion: plugin.OutOfTree,
		DefaultCacheDuration: new(time.Duration(0)),
	}
	for _, v := range p.ExtraArgs.list {
		out.Env = append(out.Env, EnvVar{upperName(v.Name), v.Value})
	}
	return out
}

// upperName puts letters of ASCII into upper case. Others, of which some
// become letters of ASCII, are refused by [variableProblem].
func upperName(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}, name)
}

// extraArgs is a list of name and value, as in the document's types, or a
// mapping, as in its example. A mapping has no order; it is sorted.
type extraArgs struct {
	list []EnvVar
	keys []string // the names as written, of a mapping; nil for a list
}

// UnmarshalJSON decodes either form, as strictly as what is around it.
func (a *extraArgs) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return unmarshalStrict(data, &a.list)
	}
	var mapping map[string]Secret
	if err := unmarshalStrict(data, &mapping); err != nil {
		return err
	}
	a.keys = slices.Sorted(maps.Keys(mapping))
	for _, key := range a.keys {
		a.list = append(a.list, EnvVar{key, mapping[key]})
	}
	return nil
}

// decodePredecessor decodes a file of the predecessor.
func decodePredecessor(doc []byte) (d decoded, err error) {
	var wire wireConfig[predecessorProvider]
	if err := unmarshalStrict(doc, &wire); err != nil {
		return d, err
	}
	for i := range wire.Providers {
		p := &wire.Providers[i]
		if !p.typeAccepted() {
			return d, errProviderType
		}
		d.providers = append(d.providers, p.provider())
		d.argKeys = append(d.argKeys, p.ExtraArgs.keys)
	}
	return d, nil
}

// predecessorShape returns the shape of a file of the predecessor.
func predecessorShape() *shape {
	str := &shape{scalar: "string"}
	secret := &shape{scalar: "string", secret: true}
	item := &shape{secret: true, fields: map[string]*shape{"name": secret, "value": secret},
		others: "an item of the list has name and value; without the dash before it, this is a mapping of names to values"}
	return &shape{fields: map[string]*shape{
		"apiVersion": str,
		"kind":       str,
		"providers": {elem: &shape{fields: map[string]*shape{
			"kind":          {scalar: "string", oneOf: predecessorProviderKinds()},
			"apiVersion":    {scalar: "string", oneOf: predecessorProviderVersions()},
			"name":          str,
			"imageMatchers": {elem: str},
			"extraArgs":     {elem: item, values: secret, secret: true},
		}}},
	}}
}

// predecessorProblem is [typeMeta.problem] for the predecessor's kinds.
func (m typeMeta) predecessorProblem() *problem {
	switch {
	case m.APIVersion == "":
		return &problem{path: fieldPath{"apiVersion"}, msg: "missing: write apiVersion: " + versionPredecessor}
	case m.APIVersion != versionPredecessor:
		return &problem{path: fieldPath{"apiVersion"}, value: m.APIVersion,
			msg: "not a version of " + m.Kind + ": it must be " + versionPredecessor + ", without a group (files of a kubelet are of kind " + configKind + ")"}
	}
	return nil
}

// predecessorPlace returns where something of a provider stands that rest
// leads to in the names of today.
func (f *configFile) predecessorPlace(index int, rest fieldPath) place {
	p := fieldPath{"providers", index}
	switch {
	case len(rest) == 0:
		return f.source.place(p)
	case rest[0] == "matchImages":
		return f.source.place(append(p.with("imageMatchers"), rest[1:]...))
	case rest[0] != "env":
		return f.source.place(append(p, rest...))
	}
	p = p.with("extraArgs")
	keys := f.argKeys[index]
	if len(rest) == 1 || keys == nil {
		return f.source.place(append(p, rest[1:]...))
	}
	k, ok := rest[1].(int)
	if !ok || k >= len(keys) {
		return f.source.place(p)
	}
	name := keys[k]
	at := f.source.keyPlace(p.with(name))
	if rest[len(rest)-1] == "value" {
		at = f.source.place(p.with(name))
	}
	if !isVariableName(name) {
		at.path = p.String()
	}
	return at
}

// isVariableName reports whether a text looks like the name of a variable and
// not like a secret that stands where a name belongs, so that it may be shown.
func isVariableName(s string) bool {
	return 0 < len(s) && len(s) <= 32 && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	})
}

// extraArgs checks the variables that a provider of the predecessor sets.
func (v *validation) extraArgs(i int, p *Provider) {
	if f, index := v.c.fileOf(i); f != nil && slices.Equal(f.argKeys[index], []string{"name", "value"}) {
		v.report(i, "", "has the fields of one item of a list: put a dash before them; variables NAME and VALUE are set with a list too", "env")
		return
	}
	first := make(map[string]int, len(p.Env))
	for k, e := range p.Env {
		if v.list.full() {
			return
		}
		msg := variableProblem(e.Name)
		if v.isBoolean(i, k) {
			msg = "a boolean, as the words yes, no, on and off are in YAML: quote the name"
		}
		if j, twice := first[e.Name]; twice && msg == "" {
			msg = "sets the same variable as " + v.c.place(i, "env", j, "name").String() + ", because names are put into upper case: remove one of the two"
		}
		if msg != "" {
			v.report(i, "", msg, "env", k, "name")
			continue
		}
		first[e.Name] = k
		if strings.Contains(string(e.Value), "\x00") {
			v.report(i, "", "has a NUL, with which no process can be started", "env", k, "value")
		}
	}
}

// isBoolean reports whether the name of extra argument k is a word that YAML
// has made "true" or "false" of.
func (v *validation) isBoolean(i, k int) bool {
	f, index := v.c.fileOf(i)
	if f == nil || f.argKeys[index] == nil || k >= len(f.argKeys[index]) {
		return false
	}
	name := f.argKeys[index][k]
	return (name == "true" || name == "false") && !v.c.has(i, "extraArgs", name)
}

// variableProblem says why name, of an extra argument, cannot be that of an
// environment variable. The rule is that of Kubernetes for the env of a
// container (IsEnvVarName in k8s.io/apimachinery).
func variableProblem(name string) string {
	const msg = "not the name of an environment variable, which an extra argument becomes: "
	switch {
	case name == "":
		return msg + "it is empty"
	case strings.Contains(name, "="):
		return msg + "it has an =, where a name ends; write what follows it as the value"
	case strings.Contains(name, "\x00"):
		return msg + "it has a NUL, with which no process can be started"
	case strings.ContainsFunc(name, unicode.IsSpace):
		return msg + "it has white space, with which no shell can read it"
	case isDigit(name[0]):
		return msg + "it begins with a digit, with which no shell can read it"
	case strings.Trim(name, variableBytes) != "":
		return msg + `it has something else than letters, digits, "_", "-" and "."`
	}
	return ""
}

const variableBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."
