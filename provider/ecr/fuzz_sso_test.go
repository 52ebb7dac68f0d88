// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package ecr_test

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/testcloud"
)

// FuzzSSO tests arbitrary responses of IAM Identity Center for a user with an SSO session.
func FuzzSSO(f *testing.F) {
	home := f.TempDir()
	dir := filepath.Join(home, ".aws", "sso", "cache")
	must.Do(f, os.MkdirAll(dir, 0o700))
	write := func(path, text string) string {
		must.Do(f, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	session := fmt.Sprintf("%x.json", sha1.Sum([]byte("https://start.example")))
	write(filepath.Join(dir, session), `{"accessToken":"`+canary.TokenSecret+`","expiresAt":"2999-01-01T00:00:00Z"}`)
	config := write(filepath.Join(home, "config"), "[default]\nsso_account_id = 111122223333\nsso_region = eu-west-1\n"+
		"sso_role_name = r\nsso_start_url = https://start.example\n")
	cloud := newCloud(f, "AWS_CONFIG_FILE="+config, "HOME="+home, "USERPROFILE="+home)
	p := newProvider(f, shortTimeouts())
	for _, seed := range []string{
		`{"roleCredentials":{"accessKeyId":"a","secretAccessKey":"b","sessionToken":"c","expiration":4102444800000}}`,
		`{"roleCredentials":{"expiration":-1e300}}`, `{"roleCredentials":[]}`, `{"roleCredentials":null}`, `{}`, `null`, ``,
		`{"__type":"UnauthorizedException","message":1}`,
	} {
		f.Add(0, seed)   // status 200: see validStatus
		f.Add(200, seed) // status 400
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		cloud.Reset()
		cloud.Inject(testcloud.Fault{Path: "/federation/credentials", Status: validStatus(status), Times: -1, Body: body})
		resp, err := p.GetCredentials(t.Context(), imageRequest(privateHost))
		checkOutcome(t, resp, err)
		if err != nil {
			canary.AssertAbsent(t, "the error", err.Error())
		}
	})
}
