// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"net/http"
	"strings"
	"testing"

	"github.com/regcred/regcred/internal/remote"
	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/plugin"
)

// TestFixMatchesCause verifies that an error's fix matches its cause. If a server does not respond,
// the fix is not about the identity. If a server's CA is unknown, the fix is not about the network.
func TestFixMatchesCause(t *testing.T) {
	for _, id := range []string{"", "id-1"} {
		w := newTestCloud(t, `{"useManagedIdentityExtension":true,"userAssignedIdentityID":"`+id+`"}`)
		w.az.Inject(testcloud.Fault{Path: imdsPath, Drop: true, Times: -1})
		_, err := w.getCredentials(imageRequest("foo.azurecr.io/x"))
		const want = "3 times; check that the node runs on Azure, and that no firewall or network policy blocks the address"
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: got the error %v, want one that ends in %q", id, err, want)
		}
	}
	for name, req := range map[string]*plugin.Request{
		"the registry": imageRequest("foo.azurecr.io/x"), "the token endpoint": podRequest("foo.azurecr.io/x", identityAnnotations("c", "t")),
	} {
		w := newTestCloud(t, managedIdentityConfig)
		w.opts.Transport = remote.WrapTransport(&http.Transport{Proxy: w.net.Transport().Proxy})
		_, err := w.getCredentials(req)
		if err == nil || !strings.Contains(err.Error(), "to trust this CA, add it to the node's trust store") || strings.Contains(err.Error(), "; check") {
			t.Errorf("%s: got the error %v, want the authority's cure alone", name, err)
		}
	}
}
