// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package gcr

import (
	"testing"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/remote"
)

// TestDefaults verifies the default endpoint of the metadata server, which is called without a
// proxy, and the default timeout.
func TestDefaults(t *testing.T) {
	p := must.Get(New(Options{}))(t)
	if got, want := p.metadataURL("x"), "http://169.254.169.254/computeMetadata/v1/x"; got != want {
		t.Errorf("the metadata server is at %q, want %q", got, want)
	}
	if newMetadataTransport().Proxy != nil {
		t.Error("a proxy may be asked for metadata")
	}
	if p.opts.UniverseDomain != "googleapis.com" || p.opts.Budget != remote.RequestTimeout {
		t.Errorf("got %q and %v", p.opts.UniverseDomain, p.opts.Budget)
	}
}
