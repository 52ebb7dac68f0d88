// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/regcred/regcred"
)

// check loads the files anew, and returns an error unless they say what they
// are to say.
func (r *Result) check() error {
	config, err := load("the result", r.dir, r.Files, nil)
	if err != nil {
		return fmt.Errorf("load the result: %w", err)
	}
	return agrees(config, r.Providers)
}

// says is check for one file.
func says(data []byte, want []regcred.Provider) error {
	config, err := load("a file", false, []File{{Data: data}}, nil)
	if err != nil {
		return err
	}
	return agrees(config, want)
}

func agrees(config *regcred.Config, want []regcred.Provider) error {
	for _, f := range config.Files() {
		if f.Kind != configKind || f.APIVersion != configV1 {
			return fmt.Errorf("the result is not a %s in %s", configKind, configV1)
		}
	}
	if at := difference(want, config.Providers); at != "" {
		return fmt.Errorf("the result differs from its source in %s", at)
	}
	return nil
}

// Validate returns what the target would reject of the result, as
// [regcred.Config.ValidateFor] does. In its errors the result stands at the
// given path: that of a directory if the result is one, else that of a file.
func (r *Result) Validate(t regcred.Target, path string) error {
	_, err := load(path, r.dir, r.Files, &t)
	return err
}

// load loads files as a kubelet would if they stood at path, a directory or a
// file, and validates them if there is a target. It is the one place that
// knows how to load what is in no file yet: from a directory of their own,
// which it removes again, while errors name path.
func load(path string, dir bool, files []File, target *regcred.Target) (*regcred.Config, error) {
	staged, err := os.MkdirTemp("", "regcred-convert-") // for its owner alone
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(staged)
	from := staged
	for i, f := range files {
		name := filepath.Join(staged, f.base())
		if !dir {
			name = filepath.Join(staged, fmt.Sprint(i))
			from = name
		}
		if err := os.WriteFile(name, f.Data, 0o600); err != nil {
			return nil, err
		}
	}
	config, err := regcred.Load(from)
	if err == nil && target != nil {
		err = config.ValidateFor(*target)
	}
	var list []error
	for _, e := range flatten(err) {
		if fe, ok := errors.AsType[*regcred.FieldError](e); ok {
			moved := *fe
			if moved.File = path; dir && fe.File != staged {
				moved.File = filepath.Join(path, filepath.Base(fe.File))
			}
			e = &moved
		}
		list = append(list, e)
	}
	return config, errors.Join(list...)
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var list []error
	for _, e := range joined.Unwrap() {
		list = append(list, flatten(e)...)
	}
	return list
}

// difference names the first place where two lists of providers differ, or
// returns "". It shows no value.
func difference(want, got []regcred.Provider) string {
	if len(want) != len(got) {
		return fmt.Sprintf("the number of providers: %d for %d", len(got), len(want))
	}
	for i := range want {
		w, g := canonical(want[i]), canonical(got[i])
		if reflect.DeepEqual(w, g) {
			continue
		}
		v, u := reflect.ValueOf(w), reflect.ValueOf(g)
		for f := range v.NumField() {
			if !reflect.DeepEqual(v.Field(f).Interface(), u.Field(f).Interface()) {
				return fmt.Sprintf("providers[%d], %s", i, v.Type().Field(f).Name)
			}
		}
	}
	return ""
}

// canonical replaces empty lists by none: an empty list need not be written.
func canonical(p regcred.Provider) regcred.Provider {
	orNil(&p.MatchImages)
	orNil(&p.Args)
	orNil(&p.Env)
	if p.TokenAttributes != nil {
		t := *p.TokenAttributes
		orNil(&t.RequiredServiceAccountAnnotationKeys)
		orNil(&t.OptionalServiceAccountAnnotationKeys)
		p.TokenAttributes = &t
	}
	return p
}

func orNil[E any](list *[]E) {
	if len(*list) == 0 {
		*list = nil
	}
}
