// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package login

import (
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/regcred/regcred/internal/must"
)

func TestCheckURL(t *testing.T) {
	const fine, plain, local, other = "", "plain HTTP", "this machine", "scheme"
	for _, tt := range []struct {
		registry string
		insecure bool
		url      string
		want     string
	}{
		{"registry.example", false, "https://registry.example/v2/", fine},
		{"registry.example", false, "https://store.example/x", fine},
		{"registry.example", false, "https://10.0.0.1/x", fine},
		{"registry.example", false, "https://192.168.1.5:8443/token", fine},
		{"10.0.0.5:5050", false, "https://10.0.0.5/jwt/auth", fine},
		{"10.0.0.5:5050", false, "http://10.0.0.5/jwt/auth", plain},
		{"10.0.0.5:5050", true, "http://10.0.0.5/jwt/auth", fine},
		{"10.0.0.5:5050", true, "http://10.0.0.6/jwt/auth", plain},
		{"127.0.0.1:5000", false, "https://[::1]:5001/token", fine},
		{"registry.example", false, "https://[fe80::1]/token", local},
		{"registry.example", false, "http://registry.example/v2/", plain},
		{"registry.example", true, "http://registry.example/v2/", fine},
		{"registry.example", true, "http://registry.example:5000/v2/", fine},
		{"registry.example", true, "http://store.example/x", plain},
		{"registry.example", false, "https://127.0.0.1/x", local},
		{"registry.example", false, "https://[::1]:443/x", local},
		{"registry.example", false, "https://localhost/x", local},
		{"registry.example", false, "https://0.0.0.0/x", local},
		{"registry.example", false, "https://169.254.169.254/x", local},
		{"registry.example", false, "https://[::ffff:169.254.169.254]/x", local},
		{"registry.example", false, "https://[fe80::1%25eth0]/x", local},
		{"registry.example", false, "https://224.0.0.1/x", local},
		{"registry.example", false, "https://2852039166/x", local},
		{"registry.example", false, "https://0xa9fea9fe/x", local},
		{"registry.example", false, "https://169.254.169.0xfe/x", local},
		{"registry.example", false, "https:///x", local},
		{"registry.example", false, "https://LOCALHOST/x", local},
		{"registry.example", false, "https://localhost./x", local},
		{"registry.example", false, "https://store.localhost/x", local},
		{"registry.example", false, "https://127.0.0.1./x", local},
		{"registry.example", false, "https://[fd00:ec2::254]/x", local},
		{"registry.example", false, "https://[fd20:ce::254%25eth0]/x", local},
		{"registry.example", false, "https://Metadata.Google.Internal./x", local},
		{"registry.example", false, "https://[fd00::1]/x", fine},
		{"registry.example", false, "https://xn--egistry-rm1g.example/x", fine},
		{"registry.example", false, "https://\uff52egistry.example/x", other}, // a full-width r
		{"registry.example", false, "https://%EF%BD%92egistry.example/x", other},
		{"registry.example", false, "ftp://registry.example/x", other},
		{"registry.example", false, "file:///etc/passwd", other},
		{"127.0.0.1:5000", false, "http://127.0.0.1:5000/v2/", fine},
		{"127.0.0.1:5000", false, "http://127.0.0.1:5001/token", fine},
		{"127.0.0.1:5000", false, "http://[::1]:5001/token", fine},
		{"localhost:5000", false, "http://127.0.0.1/x", fine},
		{"127.0.0.1:5000", false, "http://registry.example/x", plain},
		{"127.0.0.1:5000", false, "https://169.254.169.254/x", local},
		{"10.0.0.1:5000", false, "http://10.0.0.1:5000/v2/", plain},
		{"registry.localhost", false, "http://registry.localhost/v2/", plain},
		{"169.254.1.1", false, "https://169.254.1.1/v2/", fine}, // the registry itself
	} {
		registry := must.Get(name.NewRegistry(tt.registry))(t)
		target := must.Get(NewTarget(registry, "scope", tt.insecure))(t)
		u := must.Get(url.Parse(tt.url))(t)
		err := target.checkURL(u, false)
		if (err == nil) != (tt.want == fine) || errors.Is(err, ErrPlainHTTPNotAllowed) != (tt.want == plain) {
			t.Errorf("%s, insecure %t, %s: got %v, want %q", tt.registry, tt.insecure, tt.url, err, tt.want)
		}
	}
}
