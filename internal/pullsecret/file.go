// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pullsecret

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/match"
)

const (
	Kind       = "PullSecretConfig"
	APIVersion = "regcred.dev/v1alpha1"

	// DefaultSecretName is not "regcred", because many tutorials create a Secret of that name.
	DefaultSecretName = "regcred-pull"

	// DefaultRemovalGracePeriod is how long a credential stays in the Secrets after its provider
	// or registry was removed from the configuration.
	DefaultRemovalGracePeriod = 24 * time.Hour

	maxFileSize = 1 << 20
	maxTargets  = 1000 // registries and images of a file
)

// File is a PullSecretConfig: the namespaces, registries and service accounts for which the
// controller keeps pull secrets. [Load] and [Parse] return only valid files.
type File struct {
	// SecretName is the name of the Secret in each namespace. A service account's own Secret
	// has the account's name appended: see [File.AccountSecret].
	SecretName string

	// Namespaces are the labels of the namespaces that get Secrets.
	Namespaces Labels

	// ServiceAccounts are names of service accounts that get their own Secret, with the
	// credentials of providers with tokenAttributes.
	ServiceAccounts []string

	RemovalGracePeriod time.Duration
	Rules              []Rule
}

// Rule selects the registries and images for which namespaces get credentials.
type Rule struct {
	Namespaces Labels // additional labels; empty means every namespace of the file
	Targets    []Target
}

// Labels are label keys and values that an object must have.
type Labels map[string]string

// Match reports whether an object with these labels is selected.
func (l Labels) Match(labels map[string]string) bool {
	for k, v := range l {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// AccountSecret returns the name of a service account's Secret.
func (f *File) AccountSecret(account string) string { return f.SecretName + "-" + account }

// Account returns the service account to which a Secret belongs; "" means the Secret that all
// pods of a namespace share. ok is false if the file has no Secret of that name.
func (f *File) Account(secret string) (account string, ok bool) {
	if secret == f.SecretName {
		return "", true
	}
	account, ok = strings.CutPrefix(secret, f.SecretName+"-")
	return account, ok && slices.Contains(f.ServiceAccounts, account)
}

// SecretNames returns the names of all Secrets that the controller writes.
func (f *File) SecretNames() []string {
	names := []string{f.SecretName}
	for _, a := range f.ServiceAccounts {
		names = append(names, f.AccountSecret(a))
	}
	return names
}

// Load reads a file. Errors have type [*config.FieldError] and may be joined.
func Load(ctx context.Context, path string) (*File, error) {
	data, err := regularfile.Read(ctx, path, maxFileSize)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, regularfile.BareError(err))
	}
	return Parse(path, data)
}

// Parse is like [Load] for a file that was already read. The name is used in errors.
func Parse(name string, data []byte) (*File, error) {
	d := &decoder{file: name}
	f := &File{SecretName: DefaultSecretName, RemovalGracePeriod: DefaultRemovalGracePeriod}
	if root := d.parse(data); root != nil {
		d.decodeFile(root, f)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// IsPullSecretConfig reports whether data looks like a PullSecretConfig, for commands that accept
// several kinds of files.
func IsPullSecretConfig(data []byte) bool {
	d := &decoder{}
	root := d.parse(data)
	if root == nil {
		return false
	}
	for _, m := range root.members {
		if m.key.Value == "kind" {
			return m.value.Value == Kind
		}
	}
	return false
}

func (d *decoder) decodeFile(root *object, f *File) {
	d.decodeObject(root, "", fields{
		"apiVersion": {required: true, decode: func(v *value) { d.checkConstant(v, APIVersion) }},
		"kind":       {required: true, decode: func(v *value) { d.checkConstant(v, Kind) }},
		"secretName": {decode: func(v *value) { f.SecretName = d.decodeSecretName(v) }},
		"namespaces": {required: true, decode: func(v *value) {
			if f.Namespaces = d.decodeSelector(v); len(f.Namespaces) == 0 {
				d.fail(v, "", "select namespaces with at least one label: in a namespace without it, nothing is written")
			}
		}},
		"serviceAccounts": {decode: func(v *value) {
			f.ServiceAccounts = decodeList(d, v, func(v *value) string { return d.decodeName(v) })
		}},
		"removalGracePeriod": {decode: func(v *value) { f.RemovalGracePeriod = d.decodeDuration(v) }},
		"rules": {required: true, decode: func(v *value) {
			for _, item := range d.items(v) {
				if o := d.object(item); o != nil {
					f.Rules = append(f.Rules, d.decodeRule(o, item))
				}
			}
			if n := len(f.Targets()); n > maxTargets {
				d.fail(v, "", "%d registries and images; the limit is %d", n, maxTargets)
			}
		}},
	})
	for _, a := range f.ServiceAccounts {
		if n := len(f.AccountSecret(a)); n > validation.DNS1123SubdomainMaxLength {
			d.errs = append(d.errs, &config.FieldError{File: d.file, Path: "serviceAccounts", Value: a, Msg: fmt.Sprintf("the Secret's name would have %d characters; the limit is %d", n, validation.DNS1123SubdomainMaxLength)})
		}
	}
}

func (d *decoder) decodeRule(o *object, at *value) (r Rule) {
	d.decodeObject(o, at.path, fields{
		"namespaces": {decode: func(v *value) { r.Namespaces = d.decodeSelector(v) }},
		"registries": {decode: func(v *value) {
			r.Targets = append(r.Targets, decodeList(d, v, func(v *value) Target {
				host, err := match.Registry(d.text(v))
				if err != nil {
					d.fail(v, v.node.Value, "not a registry: write HOST or HOST:PORT, or list an image in images")
				}
				return Target{Registry: host}
			})...)
		}},
		"images": {decode: func(v *value) {
			r.Targets = append(r.Targets, decodeList(d, v, func(v *value) Target {
				repository, err := match.Repository(d.text(v))
				if err != nil {
					d.fail(v, v.node.Value, "not an image: write HOST/PATH, without a pattern")
				}
				return Target{Image: repository}
			})...)
		}},
	})
	if len(r.Targets) == 0 {
		d.fail(at, "", "list at least one registry or image")
	}
	return r
}

// decodeSelector decodes a label selector. Only matchLabels is supported, because the admission
// policies compare the same labels.
func (d *decoder) decodeSelector(v *value) (labels Labels) {
	o := d.object(v)
	if o == nil {
		return nil
	}
	d.decodeObject(o, v.path, fields{"matchLabels": {required: true, decode: func(v *value) {
		labels = Labels{}
		o := d.object(v)
		if o == nil {
			return
		}
		for _, m := range o.members {
			at := &value{m.value, v.path + "[" + m.key.Value + "]"}
			text := d.text(at)
			if problems := validation.IsQualifiedName(m.key.Value); len(problems) > 0 {
				d.fail(&value{m.key, at.path}, m.key.Value, "not a label key: %s", problems[0])
			}
			if problems := validation.IsValidLabelValue(text); len(problems) > 0 {
				d.fail(at, text, "not a label value: %s", problems[0])
			}
			labels[m.key.Value] = text
		}
	}}})
	return labels
}

func (d *decoder) decodeSecretName(v *value) string {
	name := d.decodeName(v)
	if name == "regcred" {
		d.fail(v, name, "many tutorials create a Secret of this name: choose another one, such as %s", DefaultSecretName)
	}
	return name
}

// decodeName decodes a name of a Secret or service account.
func (d *decoder) decodeName(v *value) string {
	name := d.text(v)
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		d.fail(v, name, "not a valid name: %s", problems[0])
	}
	return name
}

func (d *decoder) decodeDuration(v *value) time.Duration {
	text := d.text(v)
	t, err := time.ParseDuration(text)
	if err != nil || t < 0 {
		d.fail(v, text, `not a duration: write a number with a unit, such as "24h"`)
	}
	return t
}

func (d *decoder) checkConstant(v *value, want string) {
	if got := d.text(v); got != want {
		d.fail(v, got, "must be %s", want)
	}
}

// Targets returns the targets of all rules, without duplicates and in the order of the file.
func (f *File) Targets() (all []Target) {
	for _, r := range f.Rules {
		all = appendMissing(all, r.Targets...)
	}
	return all
}

func appendMissing[T comparable](list []T, more ...T) []T {
	for _, x := range more {
		if !slices.Contains(list, x) {
			list = append(list, x)
		}
	}
	return list
}

func (d *decoder) err() error { return errors.Join(d.errs...) }
