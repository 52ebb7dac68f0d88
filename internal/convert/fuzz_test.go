// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package convert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
)

// FuzzConvert verifies that every valid file is converted in each layout and format, and that
// converting the result changes nothing. An invalid file is rejected with the errors of
// [config.Load] or [config.Config.Validate].
func FuzzConvert(f *testing.F) {
	for _, text := range []string{v1beta1Config, v1alpha1JSONConfig, outOfTreeConfig, outOfTreeConverted, others, oneLine} {
		for way := range byte(9) {
			f.Add([]byte(strings.ReplaceAll(text, canary.Marker, "")), way)
		}
	}
	dir := f.TempDir()
	// Each run tests only one layout and format, so that more inputs are tried.
	f.Fuzz(func(t *testing.T, data []byte, way byte) {
		path := filepath.Join(dir, "config.yaml")
		must.Do(t, os.WriteFile(path, data, 0o600))
		layout, format := []Layout{LayoutKeep, LayoutSingle, LayoutSplit}[way%3], []Format{"", YAML, JSON}[way/3%3]
		checkConvert(t, path, layout, format)
	})
}

func checkConvert(t *testing.T, path string, layout Layout, format Format) {
	res, err := Convert(path, layout, Options{Format: format})
	if _, ok := errors.AsType[*config.FieldError](err); ok {
		return
	}
	if err != nil {
		t.Fatalf("layout %v, format %q: %v", layout, format, err)
	}
	for _, file := range res.Files {
		again := path + ".again"
		must.Do(t, os.WriteFile(again, file.Data, 0o600))
		res, err := Convert(again, LayoutKeep, Options{})
		if err != nil {
			t.Fatalf("layout %v, format %q, again: %v", layout, format, err)
		}
		if res.Files[0].IsChanged() {
			t.Fatalf("layout %v, format %q: not idempotent", layout, format)
		}
	}
}
