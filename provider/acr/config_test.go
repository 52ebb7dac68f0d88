// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package acr

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/secretfile"
)

func TestParseConfig(t *testing.T) {
	want := &config{
		Cloud: "AzurePublicCloud", TenantID: "tenant-1", UseManagedIdentity: true, UserAssignedIdentityID: "identity-1",
		ClientID: "client-1", ClientSecret: canary.PasswordSecret, ResourceManagerEndpoint: "https://management.example", UserAgent: "kubelet",
	}
	for _, test := range []struct{ name, text string }{
		{"JSON", `{"cloud":"AzurePublicCloud","tenantId":"tenant-1","useManagedIdentityExtension":true,"userAssignedIdentityID":"identity-1",
			"aadClientId":"client-1","aadClientSecret":"` + canary.PasswordSecret + `","resourceManagerEndpoint":"https://management.example","userAgent":"kubelet",
			"subscriptionId":"s","cloudProviderBackoff":true,"cloudProviderBackoffRetries":6,"rateLimits":[{"a":1}],"unknown":{"a":null}}`},
		{"JSON of another case", `{"CLOUD":"AzurePublicCloud","tenantID":"tenant-1","UseManagedIdentityExtension":true,"userassignedidentityid":"identity-1",
			"AADClientID":"client-1","aadclientsecret":"` + canary.PasswordSecret + `","ResourceManagerEndpoint":"https://management.example","useragent":"kubelet"}`},
		{"YAML", "cloud: AzurePublicCloud\ntenantID: tenant-1\nuseManagedIdentityExtension: true\nuserAssignedIdentityID: identity-1\n" +
			"aadClientId: client-1\naadClientSecret: " + canary.PasswordSecret + "\nresourceManagerEndpoint: https://management.example\nuserAgent: kubelet\nother: [1, 2]\n"},
	} {
		for kind, text := range map[string]string{"as it is": test.text, "with blanks": "\r\n  \n" + test.text + "\n\n", "with a mark": "\xef\xbb\xbf" + test.text} {
			t.Run(test.name+" "+kind, func(t *testing.T) {
				got := must.Get(parseConfig([]byte(text)))(t)
				if diff := cmp.Diff(want, got); diff != "" {
					canary.AssertAbsent(t, "nothing but the difference", diff[:0])
					t.Error("the configurations differ")
				}
			})
		}
	}
}

func TestParseConfigEmpty(t *testing.T) {
	for _, text := range []string{"", "  \n", "null", "{}", "---\n", "# nothing\n"} {
		got, err := parseConfig([]byte(text))
		if err != nil || *got != (config{}) {
			t.Errorf("%q: got error %v", text, err)
		}
	}
}

func TestReadConfigErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	secret := `"aadClientSecret":"` + canary.PasswordSecret + `"`
	for _, test := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "nowhere"), "no such file or directory"},
		{"directory", dir, "is a directory, not a regular file"},
		{"cut off", write("cut", "{"+secret+`,"cloud":`), "neither JSON nor YAML"},
		{"a list", write("list", "["+`{`+secret+"}]"), "not a JSON or YAML object"},
		{"a word", write("word", canary.PasswordSecret), "not a JSON or YAML object"},
		{"an alias", write("alias", "aadClientSecret: *"+canary.PasswordSecret), "not a JSON or YAML object"},
		{"a tab", write("tab", "cloud: x\n\taadClientSecret: "+canary.PasswordSecret), "neither JSON nor YAML: line 2"},
		{"boolean in quotes", write("bool", `{"useManagedIdentityExtension":"`+canary.PasswordSecret+`"}`), "useManagedIdentityExtension is not a boolean"},
		{"object for a text", write("object", `{"aadClientSecret":{"a":"`+canary.PasswordSecret+`"}}`), "aadClientSecret is not a string"},
		{"huge", write("huge", "{"+secret+`,"x":"`+strings.Repeat("x", secretfile.MaxSize)+`"}`), "larger than 1048576 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readConfig(test.path)
			if err == nil {
				t.Fatal("no error")
			}
			canary.AssertAbsent(t, "the error", err.Error())
			if !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "cloud configuration ") {
				t.Errorf("got error %q, want %q", err, test.want)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, text := range []string{
		`{"cloud":"AzurePublicCloud","useManagedIdentityExtension":true}`, "cloud: x\ntenantID: 1\n", "{", "- a\n- b", "*a", "&a [*a]",
		"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]", "\xef\xbb\xbf{}", `{"useManagedIdentityExtension":"x"}`, "cloud: !!binary x", "<<: 1",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		cfg, err := parseConfig(text)
		if (cfg == nil) == (err == nil) {
			t.Errorf("configuration %v, error %v", cfg != nil, err)
		}
	})
}

func TestParseMetadata(t *testing.T) {
	const list = `[{"name":"One","authentication":{"loginEndpoint":"https://login.one.example/","audiences":[]},"suffixes":{"acrLoginServer":"azurecr.one.example"}},
		{"name":"Two","authentication":{"loginEndpoint":"https://login.two.example"},"suffixes":null},null]`
	for _, test := range []struct {
		name, body, cloud string
		want              cloudEnvironment
		fails             bool
	}{
		{"first", list, "", cloudEnvironment{authority: "https://login.one.example/", suffix: "azurecr.one.example"}, false},
		{"by name", list, "tWO", cloudEnvironment{authority: "https://login.two.example"}, false},
		{"not there", list, "Three", cloudEnvironment{}, false},
		{"empty list", "[]", "", cloudEnvironment{}, false},
		{"an object", `{"name":"One"}`, "", cloudEnvironment{}, true},
		{"garbage", `<html>`, "", cloudEnvironment{}, true},
		{"empty", ``, "", cloudEnvironment{}, true},
		{"wrong types", `[{"name":1}]`, "", cloudEnvironment{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseCloudMetadata([]byte(test.body), test.cloud)
			if (err != nil) != test.fails || got != test.want {
				t.Errorf("got %+v, error %v", got, err)
			}
		})
	}
}

func FuzzParseMetadata(f *testing.F) {
	f.Add([]byte(`[{"name":"One","authentication":{"loginEndpoint":"https://l/","audiences":[]},"suffixes":{"acrLoginServer":"a.b"}}]`), "One")
	f.Add([]byte(`[null,{}]`), "")
	f.Fuzz(func(t *testing.T, body []byte, cloud string) {
		if env, err := parseCloudMetadata(body, cloud); err != nil && env != (cloudEnvironment{}) {
			t.Error("an environment with the error")
		}
	})
}

// FuzzParseAnswers tests parsing of arbitrary responses of Microsoft Entra ID, identity bindings
// and the exchange.
func FuzzParseAnswers(f *testing.F) {
	for _, text := range []string{`{"access_token":"a","expires_in":1}`, `{"refresh_token":"r"}`, `{"access_token":null}`, `[]`, `null`, ``, `{"access_token":{}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, member := range []string{"access_token", "refresh_token"} {
			if token, err := parseToken(body, member); (token == "") != (err != nil) {
				t.Errorf("%s: %d bytes, error %v", member, len(token), err)
			}
		}
	})
}
