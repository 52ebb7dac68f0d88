// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
)

var apiVersions = []string{V1, V1Beta1, V1Alpha1}

func TestEncodeRequest(t *testing.T) {
	full := Request{
		Image:                     "registry.example/a<b>&c",
		ServiceAccountToken:       NewSecret("t<"),
		ServiceAccountAnnotations: map[string]string{"b": "2", "a": "1"},
	}
	for _, tt := range []struct {
		name, version string
		req           Request
		want          string
	}{
		{"full v1", V1, full, `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"registry.example/a\u003cb\u003e\u0026c","serviceAccountToken":"t\u003c","serviceAccountAnnotations":{"a":"1","b":"2"}}` + "\n"},
		{"full v1beta1", V1Beta1, full, `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1","image":"registry.example/a\u003cb\u003e\u0026c"}` + "\n"},
		{"full v1alpha1", V1Alpha1, full, `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1alpha1","image":"registry.example/a\u003cb\u003e\u0026c"}` + "\n"},
		{"empty", V1, Request{}, `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":""}` + "\n"},
		{"empty annotations", V1, Request{ServiceAccountAnnotations: map[string]string{}}, `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":""}` + "\n"},
		// kubelet: encoding/json replaces invalid UTF-8.
		{"full OutOfTree", OutOfTree, full, `{"image":"registry.example/a\u003cb\u003e\u0026c"}` + "\n"},
		{"not UTF-8", V1, Request{Image: "a\xff"}, `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"a\ufffd"}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.APIVersion = tt.version
			got, err := EncodeRequest(&tt.req)
			if err != nil || string(got) != tt.want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, tt.want)
			}
		})
	}
	for _, version := range []string{"", "v1", V1 + "/", protocol.Group} {
		if _, err := EncodeRequest(&Request{APIVersion: version}); err == nil {
			t.Errorf("apiVersion %q is accepted", version)
		}
	}
}

func TestEncodeResponse(t *testing.T) {
	for _, tt := range []struct {
		name string
		resp Response
		want string
	}{
		{"empty", Response{APIVersion: V1, CacheKeyType: CacheImage}, `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image"}` + "\n"},
		{"empty auth", Response{APIVersion: V1Beta1, CacheKeyType: CacheGlobal, CacheDuration: new(time.Duration), Auth: map[string]AuthConfig{}}, `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1","cacheKeyType":"Global","cacheDuration":"0s"}` + "\n"},
		{"full", Response{APIVersion: V1, CacheKeyType: CacheRegistry, CacheDuration: new(90 * time.Minute), Auth: map[string]AuthConfig{"b": {}, "a": {"u", NewSecret("open-sesame")}}},
			`{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","cacheDuration":"1h30m0s","auth":{"a":{"username":"u","password":"open-sesame"},"b":{"username":"","password":""}}}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := encodeResponse(&tt.resp, time.Now())
			if err != nil || string(got) != tt.want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, tt.want)
			}
		})
	}
	for name, resp := range map[string]Response{
		"two in OutOfTree":   {APIVersion: OutOfTree, Auth: map[string]AuthConfig{"a": {Password: NewSecret(canary.PasswordSecret)}, "b": {}}},
		"OutOfTree no UTF-8": {APIVersion: OutOfTree, Auth: map[string]AuthConfig{"a": {Password: NewSecret(canary.PasswordSecret + "\xff")}}},
		"no version":         {CacheKeyType: CacheImage},
		"password not UTF-8": {APIVersion: V1, Auth: map[string]AuthConfig{"a": {Password: NewSecret(canary.PasswordSecret + "\xff")}}},
		"key not UTF-8":      {APIVersion: V1, Auth: map[string]AuthConfig{"\xff": {}}},
	} {
		_, err := encodeResponse(&resp, time.Now())
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		canary.AssertAbsent(t, name, err.Error())
	}
}

func TestDecodeRequest(t *testing.T) {
	const head = `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/`
	full := func(version string) string {
		return head + version + `","image":"registry.example/a","serviceAccountToken":"` + canary.TokenSecret + `","serviceAccountAnnotations":{"a":"1"}}`
	}
	for _, tt := range []struct {
		name, data string
		want       *Request // nil if the request is rejected
		message    string
	}{
		{"v1", full("v1"), &Request{V1, "registry.example/a", NewSecret(canary.TokenSecret), map[string]string{"a": "1"}}, ""},
		{"v1beta1 has no service account", full("v1beta1"), &Request{APIVersion: V1Beta1, Image: "registry.example/a"}, ""},
		{"v1alpha1 has no service account", full("v1alpha1"), &Request{APIVersion: V1Alpha1, Image: "registry.example/a"}, ""},
		{"unknown field", head + `v1","pod":{"name":"x"},"image":"a"}`, &Request{APIVersion: V1, Image: "a"}, ""},
		{"wrong-case field is unknown", head + `v1","Image":"b","image":"a"}`, &Request{APIVersion: V1, Image: "a"}, ""},
		{"an image alone", `{"image":"registry.example/a"}`, &Request{APIVersion: OutOfTree, Image: "registry.example/a"}, ""},
		{"null fields", head + `v1","image":"a","serviceAccountToken":null,"serviceAccountAnnotations":null}`, &Request{APIVersion: V1, Image: "a"}, ""},

		{"empty", "", nil, "invalid CredentialProviderRequest at offset 0: empty"},
		{"two", full("v1") + full("v1"), nil, "unexpected data after the JSON value"},
		{"half", full("v1")[:100], nil, "offset 100: unexpected end of JSON"},
		{"null", "null", nil, "kind: must be CredentialProviderRequest"},
		{"a string", `"` + canary.TokenSecret + `"`, nil, "offset 0: must be an object"},
		{"a huge number", "1e1000", nil, "offset 0: must be an object"},
		{"no kind", `{"apiVersion":"` + V1 + `","image":"a"}`, nil, "kind: must be CredentialProviderRequest"},
		{"a response", goodResponse, nil, "kind: must be CredentialProviderRequest"},
		{"no version", `{"kind":"CredentialProviderRequest","image":"a"}`, nil, "apiVersion: is missing"},
		{"unknown version", head + `v2","image":"a"}`, nil, "apiVersion: must be"},
		{"version without group", `{"kind":"CredentialProviderRequest","apiVersion":"v1alpha1","image":"a"}`, nil, "apiVersion: must be"},
		{"an image and empty kind", `{"kind":"","image":"a"}`, nil, "kind: must be CredentialProviderRequest"},
		{"an image and more", `{"image":"a","serviceAccountToken":"` + canary.TokenSecret + `"}`, nil, "kind: must be CredentialProviderRequest"},
		{"an image in another case", `{"Image":"a"}`, nil, "kind: must be CredentialProviderRequest"},
		{"two images alone", `{"image":"a","image":"b"}`, nil, "image: duplicate field"},
		{"an empty image alone", `{"image":""}`, nil, "kind: must be CredentialProviderRequest"},
		{"the predecessor's kind", `{"kind":"RegistryCredentialPluginRequest","image":"a"}`, nil, "kind: must be CredentialProviderRequest"},
		{"no image", head + `v1"}`, nil, "image: must not be empty"},
		{"wrong-case image", head + `v1","Image":"a"}`, nil, "image: must not be empty"},
		{"duplicate field", head + `v1","image":"a","image":"b"}`, nil, "offset 100: image: duplicate field"},
		{"token a number", head + `v1","image":"a","serviceAccountToken":1}`, nil, "serviceAccountToken: must be a string"},
		{"annotation a list", head + `v1","image":"a","serviceAccountAnnotations":{"example.com/a":["` + canary.TokenSecret + `"]}}`, nil, "serviceAccountAnnotations.example.com/a: must be a string"},
		{"duplicate annotation", head + `v1","image":"a","serviceAccountAnnotations":{"a":"","a":""}}`, nil, "serviceAccountAnnotations.a: duplicate field"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeRequest([]byte(tt.data))
			if !cmp.Equal(tt.want, got) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			checkDecodeError(t, err, tt.message)
		})
	}
}

func checkDecodeError(t *testing.T, err error, message string) {
	t.Helper()
	if message == "" {
		if err != nil {
			t.Errorf("got error %v", err)
		}
		return
	}
	var e *decodeError
	if !errors.As(err, &e) {
		t.Fatalf("got error %v of type %T, want *decodeError", err, err)
	}
	canary.AssertAbsent(t, "the error", e.Error())
	if !strings.Contains(e.Error(), message) {
		t.Errorf("got  %v\nwant …%s…", e, message)
	}
}

// goodResponse is a response that a kubelet accepts.
const goodResponse = `{"kind":"CredentialProviderResponse","apiVersion":"` + V1 + `","cacheKeyType":"Registry",` +
	`"cacheDuration":"10m0s","auth":{"registry.example":{"username":"ci","password":"` + canary.PasswordSecret + `"}}}` + "\n"

// TestDecodeResponse verifies errors that do not need a process. TestCommandStages verifies
// most of the other errors.
func TestDecodeResponse(t *testing.T) {
	with := func(fields string) string {
		return `{"kind":"CredentialProviderResponse","apiVersion":"` + V1 + `"` + fields + `}`
	}
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for _, tt := range []struct {
		name, data, message string
	}{
		{"all", goodResponse, ""},
		{"nothing but the version", with(""), ""},
		{"null fields", with(`,"cacheKeyType":null,"cacheDuration":null,"auth":null`), ""},
		{"null credential", with(`,"auth":{"a":null}`), ""},
		{"null password", with(`,"auth":{"a":{"username":null,"password":null}}`), ""},
		{"any cacheKeyType", with(`,"cacheKeyType":"None"`), ""},
		{"any auth key", with(`,"auth":{"":{}}`), ""},
		{"password not UTF-8", with(`,"auth":{"a":{"password":"\xff"}}`), "invalid JSON"},
		{"raw bytes in a password", with(`,"auth":{"a":{"password":"` + "\xff" + `"}}`), ""},
		{"escaped field name", with(`,"\u0061uth":null`), ""},
		{"escaped duplicate", with(`,"auth":null,"\u0061uth":null`), "offset 101: auth: duplicate field"},
		{"duplicate key in auth", with(`,"auth":{"a.example":{},"a.example":{}}`), "auth.a.example: duplicate field"},
		{"two kinds", with(`,"Kind":"CredentialProviderResponse"`), "Kind: unknown field; use kind"},
		{"version in another case", `{"kind":"CredentialProviderResponse","APIVERSION":"` + V1 + `"}`, "APIVERSION: unknown field; use apiVersion"},
		{"later version in another case", with(`,"APIVersion":"v1"`), "apiVersion: must be " + V1},
		{"kind a number", `{"kind":1,"apiVersion":"` + V1 + `"}`, "offset 8: kind: must be a string"},
		{"number for a duration", with(`,"cacheDuration":600`), "offset 105: cacheDuration: must be a string"},
		{"empty duration", with(`,"cacheDuration":""`), "cacheDuration: must be a duration"},
		{"duration without unit", with(`,"cacheDuration":"600"`), "cacheDuration: must be a duration"},
		{"auth a list", with(`,"auth":[]`), "auth: must be an object"},
		{"credential a string", with(`,"auth":{"a":"` + canary.PasswordSecret + `"}`), "auth.a: must be an object"},
		{"token in a credential", with(`,"auth":{"r.example":{"identitytoken":"` + canary.PasswordSecret + `"}}`), "auth.r.example.identitytoken: unknown field"},
		{"secret as a field name", with(`,"auth":{"a":{"` + canary.PasswordSecret + `":""}}`), "auth.a.(hidden name): unknown field"},
		{"secret as an auth key", with(`,"auth":{"` + canary.PasswordSecret + `":1}`), "auth.(hidden name): must be an object"},
		{"long field name", with(`,"` + strings.Repeat("a", 33) + `":1`), "offset 89: (hidden name)"},
		{"deep, unknown", with(`,"x":` + deep), "invalid JSON"},
		{"not so deep", with(`,"auth":{"a":{"password":{"a":{"a":[[[]]]}}}}`), "auth.a.password: must be a string"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := DecodeResponse([]byte(tt.data), V1)
			if (resp == nil) != (err != nil) {
				t.Errorf("got both or neither of a response and an error (%v)", err)
			}
			checkDecodeError(t, err, tt.message)
		})
	}
	_, err := DecodeResponse([]byte(goodResponse), "v1")
	checkDecodeError(t, err, "apiVersion: request version must be")
}

// TestEncodeLogin verifies that a response of the OutOfTree protocol contains the expiry time
// instead of the cache duration.
func TestEncodeLogin(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 5e8, time.FixedZone("", 3600))
	login := map[string]AuthConfig{"registry.example": {"u", NewSecret("<open-sesame>")}}
	const head = `{"kind":"RegistryCredentialPluginResponse","apiVersion":"v1alpha1",`
	for _, tt := range []struct {
		name string
		resp Response
		want string
	}{
		{"full", Response{CacheDuration: new(time.Minute), Auth: login}, head + `"expirationTimestamp":"2026-05-01T11:01:00Z","username":"u","password":"\u003copen-sesame\u003e"}` + "\n"},
		{"default duration", Response{Auth: login}, head + `"username":"u","password":"\u003copen-sesame\u003e"}` + "\n"},
		{"not cached", Response{CacheDuration: new(time.Duration), Auth: login}, head + `"username":"u","password":"\u003copen-sesame\u003e"}` + "\n"},
		{"expired", Response{CacheDuration: new(-time.Hour)}, head + `"username":"","password":""}` + "\n"},
		{"longest", Response{CacheDuration: new(time.Duration(math.MaxInt64))}, head + `"expirationTimestamp":"2318-08-11T10:47:17Z","username":"","password":""}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.resp.APIVersion = OutOfTree
			got, err := encodeResponse(&tt.resp, now)
			if err != nil || string(got) != tt.want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, tt.want)
			}
		})
	}
}

// goodOutOfTreeResponse is a valid response of the OutOfTree protocol.
const goodOutOfTreeResponse = `{"kind":"RegistryCredentialPluginResponse","apiVersion":"v1alpha1",` +
	`"expirationTimestamp":"2026-05-01T12:10:00Z","username":"ci","password":"` + canary.PasswordSecret + `"}` + "\n"

func TestDecodeLogin(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	login := func(d time.Duration) *Response {
		return &Response{OutOfTree, CacheImage, &d, map[string]AuthConfig{"": {"ci", NewSecret(canary.PasswordSecret)}}}
	}
	none := &Response{APIVersion: OutOfTree, CacheKeyType: CacheImage, CacheDuration: new(time.Duration)}
	with := func(fields string) string {
		return `{` + fields + `"username":"ci","password":"` + canary.PasswordSecret + `"}`
	}
	until := func(value string) string { return with(`"expirationTimestamp":` + value + `,`) }
	const noTime = `offset 23: expirationTimestamp: must be a time with a time zone, such as "2020-02-20T20:20:20Z"`
	const todays = `: kind: got a CredentialProviderResponse from the current protocol; configure the plugin in a CredentialProviderConfig ("regcred convert" converts a RegistryCredentialConfig)`
	for _, tt := range []struct {
		name, data string
		want       *Response // nil if the response is rejected
		message    string
	}{
		{"all", goodOutOfTreeResponse, login(10 * time.Minute), ""},
		{"no TypeMeta", with(""), login(0), ""},
		{"kind alone", with(`"kind":"RegistryCredentialPluginResponse",`), login(0), ""},
		{"version alone", with(`"apiVersion":"v1alpha1",`), login(0), ""},
		{"empty TypeMeta", with(`"kind":"","apiVersion":"",`), login(0), ""},
		{"another zone", until(`"2026-05-01T14:10:00+02:00"`), login(10 * time.Minute), ""},
		{"parts of a second", until(`"2026-05-01T12:00:00.25Z"`), login(250 * time.Millisecond), ""},
		{"now", until(`"2026-05-01T12:00:00Z"`), login(0), ""},
		{"past", until(`"2026-05-01T11:00:00Z"`), login(0), ""},
		{"zero time", until(`"0001-01-01T00:00:00Z"`), login(0), ""},
		{"far", until(`"9999-12-31T23:59:59Z"`), login(math.MaxInt64), ""},
		{"null time", until(`null`), login(0), ""},
		{"empty strings", `{"username":"","password":""}`, none, ""},
		{"null strings", `{"username":null,"password":null}`, none, ""},
		{"nothing", `{}`, none, ""},
		{"expiry of nothing", `{"expirationTimestamp":"2026-05-01T11:00:00Z"}`, none, ""},

		{"no zone", until(`"2026-05-01T12:10:00"`), nil, noTime},
		{"a day", until(`"2026-05-01"`), nil, noTime},
		{"no date", until(`"` + canary.PasswordSecret + `"`), nil, noTime},
		{"empty time", until(`""`), nil, noTime},
		{"no such day", until(`"2026-02-30T12:10:00Z"`), nil, noTime},
		{"seconds", until(`1777637400`), nil, "offset 23: expirationTimestamp: must be a string"},
		{"two times", until(`null,"expirationTimestamp":null`), nil, "expirationTimestamp: duplicate field"},
		{"password a number", `{"username":"ci","password":12345678}`, nil, "password: must be a string"},
		{"wrong-case field", `{"Username":"ci"}`, nil, "Username: unknown field; use username"},
		{"unknown field", with(`"token":"` + canary.PasswordSecret + `",`), nil, "invalid RegistryCredentialPluginResponse at offset 1: token: unknown field"},
		{"today's field", with(`"cacheKeyType":"Image",`), nil, "cacheKeyType: unknown field"},
		{"today's answer", goodResponse, nil, "invalid RegistryCredentialPluginResponse" + todays},
		{"today's in v1alpha1", strings.Replace(goodResponse, "/v1", "/v1alpha1", 1), nil, todays},
		{"today's version alone", with(`"apiVersion":"` + V1 + `",`), nil, todays},
		{"today's kind alone", `{"kind":"CredentialProviderResponse"}`, nil, todays},
		{"another version", with(`"apiVersion":"v1",`), nil, "apiVersion: must be v1alpha1 if set"},
		{"version a number", with(`"apiVersion":1,`), nil, "apiVersion: must be v1alpha1 if set"},
		{"another kind", with(`"kind":"RegistryCredentialPluginRequest",`), nil, "kind: must be RegistryCredentialPluginResponse if set"},
		{"kind a number", with(`"kind":1,`), nil, "offset 8: kind: must be a string"},
		{"null", " null", nil, "offset 1: must be an object"},
		{"a list", "[" + goodOutOfTreeResponse + "]", nil, "offset 0: must be an object"},
		{"a string", `"` + canary.PasswordSecret + `"`, nil, "offset 0: must be an object"},
		{"empty", "", nil, "invalid RegistryCredentialPluginResponse at offset 0: the plugin exited 0 and wrote nothing"},
		{"two", goodOutOfTreeResponse + goodOutOfTreeResponse, nil, "unexpected data after the JSON value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeResponse([]byte(tt.data), OutOfTree, now)
			if !cmp.Equal(tt.want, got) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			checkDecodeError(t, err, tt.message)
		})
	}
}

// TestDecodeResponseOfPredecessor verifies the errors for responses of the other protocol.
func TestDecodeResponseOfPredecessor(t *testing.T) {
	const says = "got a RegistryCredentialPluginResponse"
	for name, tt := range map[string]struct {
		data string
		want bool
	}{
		"all":               {goodOutOfTreeResponse, true},
		"kind alone":        {`{"kind":"RegistryCredentialPluginResponse"}`, true},
		"no TypeMeta":       {`{"username":"ci","password":"` + canary.PasswordSecret + `"}`, true},
		"version":           {`{"apiVersion":"v1alpha1","username":"ci","password":"` + canary.PasswordSecret + `"}`, true},
		"bad timestamp":     {`{"username":"ci","password":"x","expirationTimestamp":"soon"}`, true},
		"no password":       {`{"username":"ci"}`, false},
		"nothing":           {`{}`, false},
		"null":              {`null`, false},
		"another version":   {`{"apiVersion":"v1","username":"ci","password":"x"}`, false},
		"today's, old one":  {strings.Replace(goodResponse, "/v1", "/v1beta1", 1), false},
		"today's, no group": {strings.Replace(goodResponse, V1, "v1alpha1", 1), false},
	} {
		_, err := DecodeResponse([]byte(tt.data), V1)
		var e *decodeError
		if !errors.As(err, &e) || e.Stage != StageAPIVersion || !strings.HasPrefix(e.Msg, "must be "+V1) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		canary.AssertAbsent(t, name, e.Error())
		if got := strings.Contains(e.Msg, says); got != tt.want {
			t.Errorf("%s: it says so: %v, want %v", name, got, tt.want)
		}
	}
}

// TestFields verifies that the wire structs have the same fields as protocol.Fields.
func TestFields(t *testing.T) {
	if V1 != protocol.VersionV1 || V1Beta1 != protocol.VersionV1Beta1 || V1Alpha1 != protocol.VersionV1Alpha1 || OutOfTree != protocol.VersionOutOfTree {
		t.Error("the constants of packages plugin and protocol differ")
	}
	for kind, typ := range map[string]reflect.Type{
		protocol.KindRequest:    reflect.TypeFor[wireRequest](),
		protocol.KindResponse:   reflect.TypeFor[wireResponse](),
		protocol.KindAuthConfig: reflect.TypeFor[wireAuthConfig](),
	} {
		if diff := cmp.Diff(wireFields(typ), protocol.Fields(kind, V1), cmpopts.IgnoreFields(protocol.Field{}, "GoField")); diff != "" {
			t.Errorf("%s: wire struct and table differ (-struct +table):\n%s", kind, diff)
		}
	}
	for kind, typ := range map[string]reflect.Type{
		protocol.KindRequest:    reflect.TypeFor[Request](),
		protocol.KindResponse:   reflect.TypeFor[Response](),
		protocol.KindAuthConfig: reflect.TypeFor[AuthConfig](),
	} {
		seen := 0
		for _, f := range protocol.Fields(kind, V1) {
			if _, ok := typ.FieldByName(f.GoField); ok {
				seen++
			} else if f.Name != "kind" {
				t.Errorf("%s: %v has no field %q", kind, typ, f.GoField)
			}
		}
		if seen != typ.NumField() {
			t.Errorf("%s: the table lists %d fields of %v, which has %d", kind, seen, typ, typ.NumField())
		}
	}
	if diff := cmp.Diff(wireFields(reflect.TypeFor[wireOutOfTree]()), protocol.Fields(protocol.KindResponse, OutOfTree), cmpopts.IgnoreFields(protocol.Field{}, "GoField")); diff != "" {
		t.Errorf("OutOfTree: wire struct and table differ (-struct +table):\n%s", diff)
	}
	if protocol.Fields("Pod", V1) != nil || protocol.Fields(protocol.KindRequest, "v2") != nil || protocol.Fields(protocol.KindAuthConfig, OutOfTree) != nil {
		t.Error("there are fields of an unknown kind or version")
	}
}

func wireFields(typ reflect.Type) []protocol.Field {
	var fields []protocol.Field
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous {
			fields = append(fields, wireFields(f.Type)...)
			continue
		}
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, protocol.Field{Name: name, Type: wireTypeNames[f.Type], OmitEmpty: rest == "omitempty"})
	}
	return fields
}

var wireTypeNames = map[reflect.Type]string{
	reflect.TypeFor[string]():                    "string",
	reflect.TypeFor[*wireDuration]():             "duration",
	reflect.TypeFor[*wireTime]():                 "time",
	reflect.TypeFor[map[string]string]():         "map[string]string",
	reflect.TypeFor[map[string]wireAuthConfig](): "map[string]AuthConfig",
}

// TestFieldsAreWritten verifies that each version writes its own fields and no others.
func TestFieldsAreWritten(t *testing.T) {
	for _, version := range append(apiVersions, OutOfTree) {
		req, err := EncodeRequest(&Request{version, "a", NewSecret("t"), map[string]string{"a": "b"}})
		checkKeys(t, req, err, protocol.Fields(protocol.KindRequest, version))
		resp, err := encodeResponse(&Response{version, CacheImage, new(time.Hour), map[string]AuthConfig{"a": {}}}, time.Now())
		checkKeys(t, resp, err, protocol.Fields(protocol.KindResponse, version))
	}
}

func checkKeys(t *testing.T, data []byte, err error, fields []protocol.Field) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	must.Do(t, json.Unmarshal(data, &got))
	if len(got) != len(fields) {
		t.Errorf("got %s, want the %d fields %v", data, len(fields), fields)
	}
	at := 0
	for _, f := range fields {
		i := strings.Index(string(data[at:]), `"`+f.Name+`":`)
		if i < 0 {
			t.Fatalf("%s: %s is missing or out of order", data, f.Name)
		}
		at += i
	}
}

// secretFieldName matches documents that have a secret of the tests as a field name.
var secretFieldName = regexp.MustCompile(canary.Marker + `[^"]*"\s*:`)

func checkFuzzError(t *testing.T, data []byte, err error) {
	t.Helper()
	var e *decodeError
	if !errors.As(err, &e) {
		t.Fatalf("got an error of type %T, want *decodeError", err)
	}
	if e.Stage == StageDecode && strings.HasPrefix(e.Msg, "the document does not match the protocol's definition of its kind") {
		t.Error("the place of the mistake was not found")
	}
	if e.Offset > int64(len(data)) {
		t.Errorf("offset %d is beyond the document", e.Offset)
	}
	if !secretFieldName.Match(data) {
		canary.AssertAbsent(t, "the error", e.Error())
	}
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add([]byte(goodResponse))
	for _, fields := range []string{`"auth":{"a":null}`, `"auth":{"a":{},"a":{}}`, `"auth":[1]`, `"Auth":{}`, `"cacheDuration":1`, `"cacheDuration":"-1h"`, `"x":[{}]`, `"kind":null`} {
		f.Add([]byte(strings.Replace(goodResponse, `"auth":`, fields+`,"auth":`, 1)))
		f.Add([]byte(`{"kind":"CredentialProviderResponse","apiVersion":"` + V1 + `",` + fields + `}`))
	}
	for _, data := range []string{"", "null", "[]", `"` + canary.PasswordSecret + `"`, goodResponse + "{}", "\ufeff" + goodResponse, goodResponse[:150], "\xff"} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		resp, err := DecodeResponse(data, V1)
		if err != nil {
			checkFuzzError(t, data, err)
			return
		}
		again, err := encodeResponse(resp, time.Now())
		if err != nil {
			t.Fatalf("a response that was read cannot be encoded: %v", err)
		}
		back, err := DecodeResponse(again, V1)
		if err != nil || !cmp.Equal(resp, back, cmpopts.EquateEmpty()) {
			t.Errorf("a response changes when it is written and read again (%v)", err)
		}
	})
}

func FuzzDecodeLogin(f *testing.F) {
	f.Add([]byte(goodOutOfTreeResponse))
	f.Add([]byte(goodResponse))
	for _, fields := range []string{`"kind":1`, `"apiVersion":"v1"`, `"Username":""`, `"token":[{}]`, `"username":null`, `"expirationTimestamp":"2026-05-01"`, `"expirationTimestamp":"9999-12-31T23:59:59.5-23:59"`} {
		f.Add([]byte(`{` + fields + `,"password":"` + canary.PasswordSecret + `"}`))
	}
	for _, data := range []string{"", "null", "[]", "{}", goodOutOfTreeResponse + "{}", goodOutOfTreeResponse[:90], "\xff"} {
		f.Add([]byte(data))
	}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte) {
		resp, err := decodeResponse(data, OutOfTree, now)
		if err != nil {
			checkFuzzError(t, data, err)
			return
		}
		again, err := encodeResponse(resp, now)
		if err != nil {
			t.Fatalf("a response that was read cannot be encoded: %v", err)
		}
		back, err := decodeResponse(again, OutOfTree, now)
		*resp.CacheDuration = resp.CacheDuration.Truncate(time.Second) // the precision of the protocol
		if err != nil || !cmp.Equal(resp, back, cmpopts.EquateEmpty()) {
			t.Errorf("a response changes when it is written and read again (%v)", err)
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	for _, version := range append(apiVersions, OutOfTree) {
		data, err := EncodeRequest(&Request{version, "registry.example/a", NewSecret(canary.TokenSecret), map[string]string{"example.com/a": canary.TokenSecret}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		for _, field := range []string{`"x":[{}],`, `"image":"a",`, `"Image":1,`, `"serviceAccountToken":1,`, `"serviceAccountAnnotations":[],`, `"serviceAccountAnnotations":{"a":1},`} {
			f.Add([]byte(strings.Replace(string(data), `"image"`, field+`"image"`, 1)))
		}
	}
	for _, data := range []string{"", "null", "[]", "{}", `{"image":"a"}`, "\xff", "{}{}"} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req, err := decodeRequest(data)
		if err != nil {
			checkFuzzError(t, data, err)
			return
		}
		again, err := EncodeRequest(req)
		if err != nil {
			t.Fatalf("a request that was read cannot be encoded: %v", err)
		}
		back, err := decodeRequest(again)
		if err != nil || !cmp.Equal(req, back, cmpopts.EquateEmpty()) {
			t.Errorf("a request changes when it is written and read again (%v)", err)
		}
	})
}
