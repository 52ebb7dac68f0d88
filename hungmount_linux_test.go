// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package regcred_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/regcred/regcred"
	"github.com/regcred/regcred/config"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testenv"
	"github.com/regcred/regcred/plugin"
)

// TestHungExecutable verifies that New returns and that a lookup fails if the file system of
// the executables hangs.
func TestHungExecutable(t *testing.T) {
	if !testenv.InMountNamespace(t) {
		return
	}
	dir := testenv.MountHungFS(t)
	cfg := must.Get(config.Parse("c.yaml", []byte(`apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- {name: a, matchImages: [registry.example], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1}
`)))(t)
	k := must.Get(regcred.New(cfg, regcred.Options{BinDir: filepath.Join(dir, "bin"), Timeout: 200 * time.Millisecond}))(t)
	res, err := k.Lookup(t.Context(), regcred.Request{Image: "registry.example/app"})
	var failed *regcred.LookupError
	if !errors.As(err, &failed) || len(res.Attempts) != 1 || res.Attempts[0].Stage != plugin.StageStart {
		t.Errorf("got %+v, %v; want an attempt that failed at %s", res, err, plugin.StageStart)
	}
	t.Log(err)
	if err := k.Reload(cfg); err != nil {
		t.Error(err)
	}
	k.Close()
}
