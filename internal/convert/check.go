// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"fmt"

	"github.com/regcred/regcred/config"
)

// verifyFiles returns an error unless files, loaded again, have the wanted providers.
func verifyFiles(dir bool, files []File, want []config.Provider) error {
	cfg, err := loadFiles("the result", dir, files)
	if err != nil {
		return fmt.Errorf("load the result: %w", err)
	}
	for _, f := range cfg.Files() {
		if f.Kind != config.Kind || f.APIVersion != config.V1 {
			return fmt.Errorf("the converted file is not a %s with apiVersion %s", config.Kind, config.V1)
		}
	}
	if at := firstDifference(want, cfg.Providers); at != "" {
		return fmt.Errorf("the result differs from the source in %s", at)
	}
	return nil
}

// Validate returns what the target would reject in the result, as
// [config.Config.ValidateFor] does. Its errors use the given path as the path of the
// directory if the result is a directory, and otherwise as the path of the file.
func (r *Result) Validate(t config.Target, path string) error {
	cfg, err := loadFiles(path, r.dir, r.Files)
	if err != nil {
		return err
	}
	return cfg.ValidateFor(t)
}

// loadFiles loads files as the kubelet would from path, which is a directory or a file.
func loadFiles(path string, dir bool, files []File) (*config.Config, error) {
	if !dir {
		return config.Parse(path, files[0].Data)
	}
	byName := map[string][]byte{}
	for _, f := range files {
		byName[f.baseName()] = f.Data
	}
	return config.ParseDir(path, byName)
}

// firstDifference describes the first provider that differs between two lists, or
// returns "". It shows no values.
func firstDifference(want, got []config.Provider) string {
	if len(want) != len(got) {
		return fmt.Sprintf("the number of providers (%d instead of %d)", len(got), len(want))
	}
	for i := range want {
		if !want[i].Equal(&got[i]) {
			return fmt.Sprintf("providers[%d]", i)
		}
	}
	return ""
}
