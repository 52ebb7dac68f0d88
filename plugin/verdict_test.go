// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/internal/protocol"
)

// errorFields contains the fields of a decodeError that programs may use.
type errorFields struct {
	kind  string
	stage Stage
	path  string
}

func errorFieldsOf(t *testing.T, err error) errorFields {
	t.Helper()
	var e *decodeError
	if !errors.As(err, &e) {
		t.Fatalf("%v is not a *decodeError", err)
	}
	return errorFields{e.Kind, e.Stage, e.Field}
}

func TestVerdicts(t *testing.T) {
	const (
		request  = `{"kind":"CredentialProviderRequest","apiVersion":"` + V1 + `"`
		response = `{"kind":"CredentialProviderResponse","apiVersion":"` + V1 + `"`
	)
	type decoder = func([]byte) error
	asRequest := func(data []byte) error { _, err := decodeRequest(data); return err }
	answerIn := func(version string) decoder {
		return func(data []byte) error { _, err := DecodeResponse(data, version); return err }
	}
	for _, tt := range []struct {
		name   string
		decode decoder
		data   string
		want   errorFields
	}{
		{"request: kind", asRequest, `{"kind":"x","apiVersion":"` + V1 + `","image":"a"}`, errorFields{protocol.KindRequest, StageDecode, "kind"}},
		{"request: version", asRequest, `{"kind":"CredentialProviderRequest","apiVersion":"x","image":"a"}`, errorFields{protocol.KindRequest, StageAPIVersion, "apiVersion"}},
		{"request: image", asRequest, request + `}`, errorFields{protocol.KindRequest, StageDecode, "image"}},
		{"request: type", asRequest, request + `,"image":1}`, errorFields{protocol.KindRequest, StageDecode, "image"}},
		{"request: twice", asRequest, request + `,"image":"a","image":"a"}`, errorFields{protocol.KindRequest, StageDecode, "image"}},
		{"request: type behind an unknown field", asRequest, request + `,"x":{"y":[1]},"image":1}`, errorFields{protocol.KindRequest, StageDecode, "image"}},
		{"response: kind", answerIn(V1), `{"kind":"x","apiVersion":"` + V1 + `"}`, errorFields{protocol.KindResponse, StageDecode, "kind"}},
		{"response: version", answerIn(V1), `{"kind":"CredentialProviderResponse","apiVersion":"` + V1Beta1 + `"}`, errorFields{protocol.KindResponse, StageAPIVersion, "apiVersion"}},
		{"response: asked in no version", answerIn("x"), response + `}`, errorFields{protocol.KindResponse, StageAPIVersion, "apiVersion"}},
		{"response: type of the kind", answerIn(V1), `{"kind":1,"apiVersion":"` + V1 + `"}`, errorFields{protocol.KindResponse, StageDecode, "kind"}},
		{"response: type", answerIn(V1), response + `,"cacheDuration":1}`, errorFields{protocol.KindResponse, StageDecode, "cacheDuration"}},
		{"response: user name", answerIn(V1), response + `,"auth":{"a.b":{"username":1}}}`, errorFields{protocol.KindResponse, StageDecode, "auth.a.b.username"}},
		{"login: no object", answerIn(OutOfTree), `null`, errorFields{protocol.KindOutOfTreeResponse, StageDecode, ""}},
		{"login: today's answer", answerIn(OutOfTree), response + `}`, errorFields{protocol.KindOutOfTreeResponse, StageAPIVersion, "kind"}},
		{"login: version", answerIn(OutOfTree), `{"apiVersion":"x"}`, errorFields{protocol.KindOutOfTreeResponse, StageAPIVersion, "apiVersion"}},
		{"login: kind", answerIn(OutOfTree), `{"kind":"x"}`, errorFields{protocol.KindOutOfTreeResponse, StageDecode, "kind"}},
		{"login: type of the kind", answerIn(OutOfTree), `{"kind":1}`, errorFields{protocol.KindOutOfTreeResponse, StageDecode, "kind"}},
		{"login: type", answerIn(OutOfTree), `{"username":1}`, errorFields{protocol.KindOutOfTreeResponse, StageDecode, "username"}},
		{"login: time", answerIn(OutOfTree), `{"expirationTimestamp":"x"}`, errorFields{protocol.KindOutOfTreeResponse, StageDecode, "expirationTimestamp"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := errorFieldsOf(t, tt.decode([]byte(tt.data))); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestIsLogin verifies that the hint about the out-of-tree protocol is given only if both of
// its fields are present.
func TestIsLogin(t *testing.T) {
	for data, want := range map[string]bool{
		`{"username":"u","password":"p"}`: true, `{"username":"u"}`: false, `{"password":"p"}`: false, `[]`: false,
	} {
		_, err := DecodeResponse([]byte(data), V1)
		if err == nil || strings.Contains(err.Error(), protocol.KindOutOfTreeResponse) != want {
			t.Errorf("%s: %v; the hint: want %v", data, err, want)
		}
	}
}

func TestEncodeErrorsName(t *testing.T) {
	if _, err := EncodeRequest(&Request{APIVersion: "x"}); err == nil || !strings.Contains(err.Error(), "encode "+protocol.KindRequest) {
		t.Errorf("request: %v", err)
	}
	if _, err := encodeResponse(&Response{APIVersion: "x"}, time.Now()); err == nil || !strings.Contains(err.Error(), "encode "+protocol.KindResponse) {
		t.Errorf("response: %v", err)
	}
	two := &Response{APIVersion: OutOfTree, CacheKeyType: CacheImage, Auth: map[string]AuthConfig{"a": {}, "b": {}}}
	if _, err := encodeResponse(two, time.Now()); err == nil || !strings.Contains(err.Error(), "encode "+protocol.KindOutOfTreeResponse) {
		t.Errorf("login: %v", err)
	}
}

// TestDecodeCacheKeyType verifies the error for a cacheKeyType that the kubelet rejects after
// decoding.
func TestDecodeCacheKeyType(t *testing.T) {
	c := Command{APIVersion: V1}
	for value, missing := range map[string]bool{"": true, "x": false} {
		_, err := c.decodeOutput([]byte(`{"kind":"CredentialProviderResponse","apiVersion":"`+V1+`","cacheKeyType":"`+value+`"}`), "a")
		if got, want := errorFieldsOf(t, err), (errorFields{protocol.KindResponse, StageCacheKeyType, "cacheKeyType"}); got != want {
			t.Errorf("%q: got %+v, want %+v", value, got, want)
		}
		if strings.Contains(err.Error(), "is missing") != missing {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// TestEmptyKeyIsKept verifies that the auth key "" is replaced by a key for the image only in
// the OutOfTree protocol.
func TestEmptyKeyIsKept(t *testing.T) {
	resp := must.Get(Command{APIVersion: V1}.decodeOutput([]byte(`{"kind":"CredentialProviderResponse","apiVersion":"`+V1+
		`","cacheKeyType":"Image","auth":{"":{"username":"u","password":"p"}}}`), "a.b/c"))(t)
	if _, ok := resp.Auth[""]; !ok || len(resp.Auth) != 1 {
		t.Errorf("the keys are %v", resp.Auth)
	}
}

func TestLastLine(t *testing.T) {
	for s, want := range map[string]string{"": "", "a": "a", "a\nb": "b", "a\n b \n\n": "b", "\nab": "ab"} {
		if got := lastLine(s); got != want {
			t.Errorf("lastLine(%q) = %q, want %q", s, got, want)
		}
	}
}
