// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"fmt"

	"github.com/regcred/regcred/config"
)

// check loads the files anew, and returns an error unless they say what they
// are to say.
func (r *Result) check() error {
	cfg, err := load("the result", r.dir, r.Files, nil)
	if err != nil {
		return fmt.Errorf("load the result: %w", err)
	}
	return agrees(cfg, r.Providers)
}

// says is check for one file.
func says(data []byte, want []config.Provider) error {
	cfg, err := load("a file", false, []File{{Data: data}}, nil)
	if err != nil {
		return err
	}
	return agrees(cfg, want)
}

func agrees(cfg *config.Config, want []config.Provider) error {
	for _, f := range cfg.Files() {
		if f.Kind != configKind || f.APIVersion != configV1 {
			return fmt.Errorf("the result is not a %s in %s", configKind, configV1)
		}
	}
	if at := difference(want, cfg.Providers); at != "" {
		return fmt.Errorf("the result differs from its source in %s", at)
	}
	return nil
}

// Validate returns what the target would reject of the result, as
// [config.Config.ValidateFor] does. In its errors the result stands at the
// given path: that of a directory if the result is one, else that of a file.
func (r *Result) Validate(t config.Target, path string) error {
	_, err := load(path, r.dir, r.Files, &t)
	return err
}

// load loads files as a kubelet would if they stood at path, a directory or a
// file, and validates them if there is a target.
func load(path string, dir bool, files []File, target *config.Target) (cfg *config.Config, err error) {
	if dir {
		byName := map[string][]byte{}
		for _, f := range files {
			byName[f.base()] = f.Data
		}
		cfg, err = config.ParseDir(path, byName)
	} else {
		cfg, err = config.Parse(path, files[0].Data)
	}
	if err == nil && target != nil {
		err = cfg.ValidateFor(*target)
	}
	return cfg, err
}

// difference names the first provider in which two lists differ, or returns "".
// It shows no value.
func difference(want, got []config.Provider) string {
	if len(want) != len(got) {
		return fmt.Sprintf("the number of providers: %d for %d", len(got), len(want))
	}
	for i := range want {
		if !want[i].Equal(&got[i]) {
			return fmt.Sprintf("providers[%d]", i)
		}
	}
	return ""
}
