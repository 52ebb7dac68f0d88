// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/regcred/regcred/config"
)

// check loads files anew and returns them as a Result if they say what they
// are to say.
func (c *conversion) check(files []File) (*Result, error) {
	res := &Result{Source: c.src, Providers: c.want, Files: files, dir: c.dir}
	if err := res.load(); err != nil {
		return nil, fmt.Errorf("load the result: %w", err)
	}
	for _, f := range res.config.Files() {
		if f.Kind != configKind || f.APIVersion != configV1 {
			return nil, fmt.Errorf("the result is not a %s in %s", configKind, configV1)
		}
	}
	if at := difference(c.want, res.config.Providers); at != "" {
		return nil, fmt.Errorf("the result differs from its source in %s", at)
	}
	return res, nil
}

// load loads the files from a directory of their own, which it removes again:
// what decides is how a kubelet would read them, and that is from files.
func (r *Result) load() (err error) {
	r.staged, err = os.MkdirTemp("", "regcred-convert-") // for its owner alone
	if err != nil {
		return err
	}
	defer os.RemoveAll(r.staged)
	for _, f := range r.Files {
		if err := os.WriteFile(filepath.Join(r.staged, f.base()), f.Data, 0o600); err != nil {
			return err
		}
	}
	path := r.staged
	if !r.dir {
		path = filepath.Join(r.staged, r.Files[0].base())
	}
	r.config, err = config.Load(path)
	return r.at("the result", err)
}

// Validate returns what the target would reject of the result, as
// [config.Config.ValidateFor] does. In its errors the result stands at the
// given path: that of a directory if the result is one, else that of a file.
func (r *Result) Validate(t config.Target, path string) error {
	return r.at(path, r.config.ValidateFor(t))
}

// at makes errors name path in place of where the result was loaded from.
func (r *Result) at(path string, err error) error {
	var list []error
	for _, e := range flatten(err) {
		if fe, ok := errors.AsType[*config.FieldError](e); ok {
			moved := *fe
			if moved.File = path; r.dir && fe.File != r.staged {
				moved.File = filepath.Join(path, filepath.Base(fe.File))
			}
			e = &moved
		}
		list = append(list, e)
	}
	return errors.Join(list...)
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
func difference(want, got []config.Provider) string {
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
func canonical(p config.Provider) config.Provider {
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
