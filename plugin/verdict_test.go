// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// verdict is what programs read of a DecodeError.
type verdict struct {
	kind  string
	stage Stage
	path  string
}

func verdictOf(t *testing.T, err error) verdict {
	t.Helper()
	var e *DecodeError
	if !errors.As(err, &e) {
		t.Fatalf("%v is not a *DecodeError", err)
	}
	return verdict{e.Kind, e.Stage, e.Field}
}

func TestVerdicts(t *testing.T) {
	const (
		request  = `{"kind":"CredentialProviderRequest","apiVersion":"` + V1 + `"`
		response = `{"kind":"CredentialProviderResponse","apiVersion":"` + V1 + `"`
	)
	type decoder = func([]byte) error
	asRequest := func(data []byte) error { _, err := DecodeRequest(data); return err }
	answerIn := func(version string) decoder {
		return func(data []byte) error { _, err := DecodeResponse(data, version); return err }
	}
	for _, tt := range []struct {
		name   string
		decode decoder
		data   string
		want   verdict
	}{
		{"request: kind", asRequest, `{"kind":"x","apiVersion":"` + V1 + `","image":"a"}`, verdict{KindRequest, StageDecode, "kind"}},
		{"request: version", asRequest, `{"kind":"CredentialProviderRequest","apiVersion":"x","image":"a"}`, verdict{KindRequest, StageAPIVersion, "apiVersion"}},
		{"request: image", asRequest, request + `}`, verdict{KindRequest, StageDecode, "image"}},
		{"request: type", asRequest, request + `,"image":1}`, verdict{KindRequest, StageDecode, "image"}},
		{"request: twice", asRequest, request + `,"image":"a","image":"a"}`, verdict{KindRequest, StageDecode, "image"}},
		{"request: type behind an unknown field", asRequest, request + `,"x":{"y":[1]},"image":1}`, verdict{KindRequest, StageDecode, "image"}},
		{"response: kind", answerIn(V1), `{"kind":"x","apiVersion":"` + V1 + `"}`, verdict{KindResponse, StageDecode, "kind"}},
		{"response: version", answerIn(V1), `{"kind":"CredentialProviderResponse","apiVersion":"` + V1Beta1 + `"}`, verdict{KindResponse, StageAPIVersion, "apiVersion"}},
		{"response: asked in no version", answerIn("x"), response + `}`, verdict{KindResponse, StageAPIVersion, "apiVersion"}},
		{"response: type of the kind", answerIn(V1), `{"kind":1,"apiVersion":"` + V1 + `"}`, verdict{KindResponse, StageDecode, "kind"}},
		{"response: type", answerIn(V1), response + `,"cacheDuration":1}`, verdict{KindResponse, StageDecode, "cacheDuration"}},
		{"response: user name", answerIn(V1), response + `,"auth":{"a.b":{"username":1}}}`, verdict{KindResponse, StageDecode, "auth.a.b.username"}},
		{"login: no object", answerIn(OutOfTree), `null`, verdict{KindOutOfTreeResponse, StageDecode, ""}},
		{"login: today's answer", answerIn(OutOfTree), response + `}`, verdict{KindOutOfTreeResponse, StageAPIVersion, "kind"}},
		{"login: version", answerIn(OutOfTree), `{"apiVersion":"x"}`, verdict{KindOutOfTreeResponse, StageAPIVersion, "apiVersion"}},
		{"login: kind", answerIn(OutOfTree), `{"kind":"x"}`, verdict{KindOutOfTreeResponse, StageDecode, "kind"}},
		{"login: type of the kind", answerIn(OutOfTree), `{"kind":1}`, verdict{KindOutOfTreeResponse, StageDecode, "kind"}},
		{"login: type", answerIn(OutOfTree), `{"username":1}`, verdict{KindOutOfTreeResponse, StageDecode, "username"}},
		{"login: time", answerIn(OutOfTree), `{"expirationTimestamp":"x"}`, verdict{KindOutOfTreeResponse, StageDecode, "expirationTimestamp"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := verdictOf(t, tt.decode([]byte(tt.data))); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestIsLogin: the hint at the older protocol needs both of its fields.
func TestIsLogin(t *testing.T) {
	for data, want := range map[string]bool{
		`{"username":"u","password":"p"}`: true, `{"username":"u"}`: false, `{"password":"p"}`: false, `[]`: false,
	} {
		_, err := DecodeResponse([]byte(data), V1)
		if err == nil || strings.Contains(err.Error(), KindOutOfTreeResponse) != want {
			t.Errorf("%s: %v; the hint: want %v", data, err, want)
		}
	}
}

func TestEncodeErrorsName(t *testing.T) {
	if _, err := EncodeRequest(&Request{APIVersion: "x"}); err == nil || !strings.Contains(err.Error(), "encode "+KindRequest) {
		t.Errorf("request: %v", err)
	}
	if _, err := EncodeResponse(&Response{APIVersion: "x"}); err == nil || !strings.Contains(err.Error(), "encode "+KindResponse) {
		t.Errorf("response: %v", err)
	}
	two := &Response{APIVersion: OutOfTree, CacheKeyType: CacheImage, Auth: map[string]AuthConfig{"a": {}, "b": {}}}
	if _, err := EncodeResponse(two); err == nil || !strings.Contains(err.Error(), "encode "+KindOutOfTreeResponse) {
		t.Errorf("login: %v", err)
	}
}

// TestAnswerCacheKeyType: what Command says of an answer that a kubelet
// refuses after it has decoded it.
func TestAnswerCacheKeyType(t *testing.T) {
	c := Command{APIVersion: V1}
	for value, missing := range map[string]bool{"": true, "x": false} {
		_, failed := c.answer([]byte(`{"kind":"CredentialProviderResponse","apiVersion":"`+V1+`","cacheKeyType":"`+value+`"}`), "a")
		if failed == nil || failed.stage != StageCacheKeyType {
			t.Fatalf("%q: %v", value, failed)
		}
		if got, want := verdictOf(t, failed.err), (verdict{KindResponse, StageCacheKeyType, "cacheKeyType"}); got != want {
			t.Errorf("%q: got %+v, want %+v", value, got, want)
		}
		if strings.Contains(failed.err.Error(), "is missing") != missing {
			t.Errorf("%q: %v", value, failed.err)
		}
	}
}

// TestEmptyKeyIsKept: only in the older protocol does "" stand for the image.
func TestEmptyKeyIsKept(t *testing.T) {
	resp, failed := Command{APIVersion: V1}.answer([]byte(`{"kind":"CredentialProviderResponse","apiVersion":"`+V1+
		`","cacheKeyType":"Image","auth":{"":{"username":"u","password":"p"}}}`), "a.b/c")
	if failed != nil {
		t.Fatal(failed.err)
	}
	if _, ok := resp.Auth[""]; !ok || len(resp.Auth) != 1 {
		t.Errorf("the keys are %v", resp.Auth)
	}
}

// TestFieldsOutOfTree: the fields that the older protocol has.
func TestFieldsOutOfTree(t *testing.T) {
	want := map[string][]Field{
		KindRequest: {{"image", typeString, false, "Image"}},
		KindResponse: {
			{"expirationTimestamp", typeTime, true, "CacheDuration"}, {"username", typeString, false, "Auth"}, {"password", typeString, false, "Auth"},
		},
	}
	for kind, fields := range want {
		got := Fields(kind, OutOfTree)
		if len(got) < len(fields) {
			t.Fatalf("%s: %v", kind, got)
		}
		for i, field := range got[len(got)-len(fields):] {
			if field != fields[i] {
				t.Errorf("%s: got %+v, want %+v", kind, field, fields[i])
			}
		}
	}
	if got := kindIn(OutOfTree, KindRequest); got != KindOutOfTreeRequest {
		t.Errorf("the kind of a request is %s", got)
	}
	if got := kindIn(OutOfTree, KindResponse); got != KindOutOfTreeResponse {
		t.Errorf("the kind of a response is %s", got)
	}
}

func TestLastLine(t *testing.T) {
	for s, want := range map[string]string{"": "", "a": "a", "a\nb": "b", "a\n b \n\n": "b", "\nab": "ab"} {
		if got := lastLine(s); got != want {
			t.Errorf("lastLine(%q) = %q, want %q", s, got, want)
		}
	}
}

// TestRecordedDuration: a run that did not start has lasted too; that of one
// that did is the process's.
func TestRecordedDuration(t *testing.T) {
	x, err := Command{}.record(func(*Exchange) *failure {
		for begun := time.Now(); time.Since(begun) == 0; {
			continue // until the clock moves
		}
		return nil
	})
	if err != nil || x.Duration <= 0 {
		t.Errorf("not started: %v, %v", x.Duration, err)
	}
	x, err = Command{}.record(func(x *Exchange) *failure {
		x.Started, x.Duration = time.Now(), 5
		return nil
	})
	if err != nil || x.Duration != 5 {
		t.Errorf("started: %v, %v, want 5 ns", x.Duration, err)
	}
}
