// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package clients

import (
	"context"
	"os"
	"path/filepath"

	"github.com/regcred/regcred/upstream/plugins"
)

// secondRepository is the name of a symlink to the plugin, for a second provider.
const secondRepository = "second-" + plugins.Static

// buildPrograms builds the helper, a plugin and the recorder into directories below dir. If requested, it
// also builds the clients into the user's cache directory.
func buildPrograms(ctx context.Context, dir string, withClients bool) error {
	for _, d := range []string{"helper", "plugins", "recorder"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if _, err := plugins.Build(filepath.Join(dir, "helper"), helperName); err != nil {
		return err
	}
	plugin, err := plugins.Build(filepath.Join(dir, "plugins"), plugins.Static)
	if err != nil {
		return err
	}
	if err := os.Symlink(plugin, filepath.Join(dir, "plugins", secondRepository)); err != nil {
		return err
	}
	recorder, err := plugins.BuildInRepository(filepath.Join(dir, "recorder"), "clients/recorder")
	if err != nil {
		return err
	}
	if err := os.Rename(recorder, filepath.Join(filepath.Dir(recorder), helperName)); err != nil {
		return err
	}
	for _, c := range clients {
		if !withClients {
			break
		}
		if err := c.install(ctx); err != nil {
			return err
		}
	}
	return nil
}
