// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// The wire structs hold secrets as strings, because a [Secret] refuses to be
// marshalled. They never leave this file.

type wireMeta struct {
	Kind       string `json:"kind,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

type wireRequest struct {
	wireMeta
	Image                     string            `json:"image"`
	ServiceAccountToken       string            `json:"serviceAccountToken,omitempty"`
	ServiceAccountAnnotations map[string]string `json:"serviceAccountAnnotations,omitempty"`
}

type wireResponse struct {
	wireMeta
	CacheKeyType  string                    `json:"cacheKeyType"`
	CacheDuration *wireDuration             `json:"cacheDuration,omitempty"`
	Auth          map[string]wireAuthConfig `json:"auth,omitempty"`
}

type wireAuthConfig struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// wireLogin is the answer of [OutOfTree].
type wireLogin struct {
	wireMeta
	ExpirationTimestamp *wireTime `json:"expirationTimestamp,omitempty"`
	wireAuthConfig
}

// wireTime is read and written as metav1.Time is.
type wireTime time.Time

func (t *wireTime) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	parsed, err := parseTime(s)
	*t = wireTime(parsed)
	return err
}

func (t wireTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Time(t).UTC().Format(time.RFC3339))
}

func parseTime(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) }

// wireDuration is read and written as metav1.Duration is.
type wireDuration time.Duration

func (d *wireDuration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(s)
	*d = wireDuration(parsed)
	return err
}

func (d wireDuration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// EncodeRequest returns the bytes that a kubelet writes to a plugin's standard
// input for req: one line in the version that req names. Versions other than
// [V1] do not carry the service-account fields, and lose them.
func EncodeRequest(req *Request) ([]byte, error) {
	if !supported(req.APIVersion) {
		return nil, fmt.Errorf("encode %s: apiVersion: %s", KindRequest, unsupported(req.APIVersion))
	}
	wire := wireRequest{Image: req.Image}
	if req.APIVersion != OutOfTree {
		wire.wireMeta = wireMeta{Kind: KindRequest, APIVersion: req.APIVersion}
	}
	if hasServiceAccount(req.APIVersion) {
		wire.ServiceAccountToken = req.ServiceAccountToken.Reveal()
		wire.ServiceAccountAnnotations = req.ServiceAccountAnnotations
	}
	return encodeLine(wire)
}

// DecodeRequest reads a request as a plugin gets it. Field names are
// case-sensitive, kind, a supported apiVersion and image are required, and
// duplicate fields and trailing bytes are refused; fields that are not known
// are ignored, so that a later kubelet may add some.
//
// An object with an image and nothing else is a request of [OutOfTree]. That
// protocol asks for the argument get-credentials too: whoever calls
// DecodeRequest has to check it, as [Serve] does.
//
// Errors are of type [*DecodeError].
func DecodeRequest(data []byte) (*Request, error) {
	if err := checkWhole(data, KindRequest); err != nil {
		return nil, err
	}
	if image, ok := onlyImage(data); ok {
		return &Request{APIVersion: OutOfTree, Image: image}, nil
	}
	var wire wireRequest
	strict, err := kjson.UnmarshalStrict(data, &wire, kjson.DisallowDuplicateFields)
	if err != nil || len(strict) > 0 {
		return nil, locate(data, KindRequest, V1)
	}
	if wire.Kind != KindRequest {
		return nil, decodeError(KindRequest, StageDecode, "kind", "must be "+KindRequest)
	}
	if !ofKubelet(wire.APIVersion) {
		return nil, decodeError(KindRequest, StageAPIVersion, "apiVersion", unsupported(wire.APIVersion))
	}
	if wire.Image == "" {
		return nil, decodeError(KindRequest, StageDecode, "image", "must not be empty")
	}
	req := &Request{APIVersion: wire.APIVersion, Image: wire.Image}
	if hasServiceAccount(wire.APIVersion) {
		req.ServiceAccountToken = NewSecret(wire.ServiceAccountToken)
		req.ServiceAccountAnnotations = wire.ServiceAccountAnnotations
	}
	return req, nil
}

// onlyImage returns the image of a request that has no other member.
func onlyImage(data []byte) (string, bool) {
	var wire struct {
		Image string `json:"image"`
	}
	strict, err := kjson.UnmarshalStrict(data, &wire)
	return wire.Image, err == nil && len(strict) == 0 && wire.Image != ""
}

// EncodeResponse returns the bytes that a plugin writes to its standard
// output for resp: one line in the version that resp names. It refuses text
// that is not UTF-8, which JSON would silently change.
//
// For [OutOfTree] it refuses more than one credential. The key under which it
// stands is not written, nor is cacheKeyType; a CacheDuration of more than 0 is
// written as the time at which it ends, in whole seconds.
func EncodeResponse(resp *Response) ([]byte, error) { return encodeResponse(resp, time.Now()) }

func encodeResponse(resp *Response, now time.Time) ([]byte, error) {
	if !supported(resp.APIVersion) {
		return nil, fmt.Errorf("encode %s: apiVersion: %s", KindResponse, unsupported(resp.APIVersion))
	}
	for key, auth := range resp.Auth {
		if !utf8.ValidString(key) || !utf8.ValidString(auth.Username) || !utf8.ValidString(auth.Password.Reveal()) {
			return nil, fmt.Errorf("encode %s: auth: a key, user name or password is not valid UTF-8", kindIn(resp.APIVersion, KindResponse))
		}
	}
	if resp.APIVersion == OutOfTree {
		return encodeLogin(resp, now)
	}
	wire := wireResponse{
		wireMeta:      wireMeta{Kind: KindResponse, APIVersion: resp.APIVersion},
		CacheKeyType:  string(resp.CacheKeyType),
		CacheDuration: (*wireDuration)(resp.CacheDuration),
	}
	for key, auth := range resp.Auth {
		if wire.Auth == nil {
			wire.Auth = make(map[string]wireAuthConfig, len(resp.Auth))
		}
		wire.Auth[key] = wireAuthConfig{Username: auth.Username, Password: auth.Password.Reveal()}
	}
	return encodeLine(wire)
}

func encodeLogin(resp *Response, now time.Time) ([]byte, error) {
	if n := len(resp.Auth); n > 1 {
		return nil, fmt.Errorf("encode %s: auth has %d credentials, but the out-of-tree protocol supports only one", KindOutOfTreeResponse, n)
	}
	wire := wireLogin{wireMeta: wireMeta{Kind: KindOutOfTreeResponse, APIVersion: OutOfTree}}
	if d := resp.CacheDuration; d != nil && *d > 0 {
		wire.ExpirationTimestamp = new(wireTime(now.Add(*d)))
	}
	for _, auth := range resp.Auth {
		wire.wireAuthConfig = wireAuthConfig{Username: auth.Username, Password: auth.Password.Reveal()}
	}
	return encodeLine(wire)
}

// DecodeResponse reads the answer of a plugin that was asked in apiVersion.
// It accepts and rejects what kubelet 1.37 accepts and rejects
// (pkg/credentialprovider/plugin/plugin.go): unknown, duplicate and wrong-case
// fields and trailing bytes are refused. As in the kubelet, cacheKeyType may
// be anything here; [Command] checks it afterwards.
//
// An answer of [OutOfTree] is read as strictly. It becomes a Response for the
// image alone ([CacheImage]), whose CacheDuration is the time that is left
// until expirationTimestamp, 0 if there is none or if it is past. Its
// credential stands under the key "", for the answer names no image; a
// [Command] puts the image there. An empty user name and password are no
// credential.
//
// Errors are of type [*DecodeError].
func DecodeResponse(data []byte, apiVersion string) (*Response, error) {
	return decodeResponse(data, apiVersion, time.Now())
}

func decodeResponse(data []byte, apiVersion string, now time.Time) (*Response, error) {
	if err := checkWhole(data, kindIn(apiVersion, KindResponse)); err != nil {
		return nil, explain(err, data)
	}
	if err := checkAPIVersion(data, apiVersion); err != nil {
		return nil, err
	}
	if apiVersion == OutOfTree {
		return decodeLogin(data, now)
	}
	var wire wireResponse
	strict, err := kjson.UnmarshalStrict(data, &wire)
	if err != nil || len(strict) > 0 {
		return nil, locate(data, KindResponse, apiVersion)
	}
	if wire.Kind != KindResponse {
		msg := "must be " + KindResponse
		if what := printedKind(data); what != "" {
			msg += "; got " + what
		}
		return nil, decodeError(KindResponse, StageDecode, "kind", msg)
	}
	resp := &Response{
		APIVersion:    wire.APIVersion,
		CacheKeyType:  CacheKeyType(wire.CacheKeyType),
		CacheDuration: (*time.Duration)(wire.CacheDuration),
	}
	if wire.Auth != nil {
		resp.Auth = make(map[string]AuthConfig, len(wire.Auth))
	}
	for key, auth := range wire.Auth {
		resp.Auth[key] = AuthConfig{Username: auth.Username, Password: NewSecret(auth.Password)}
	}
	return resp, nil
}

func decodeLogin(data []byte, now time.Time) (*Response, error) {
	// Nothing in this protocol is required, so null would be an answer.
	if at := skipTo(data, 0); data[at] != '{' {
		return nil, &DecodeError{Kind: KindOutOfTreeResponse, Stage: StageDecode, Offset: at, Msg: "must be an object"}
	}
	var wire wireLogin
	strict, err := kjson.UnmarshalStrict(data, &wire)
	if err != nil || len(strict) > 0 {
		return nil, locate(data, KindResponse, OutOfTree)
	}
	resp := &Response{APIVersion: OutOfTree, CacheKeyType: CacheImage, CacheDuration: new(time.Duration)}
	if wire.ExpirationTimestamp != nil {
		*resp.CacheDuration = max(0, time.Time(*wire.ExpirationTimestamp).Sub(now))
	}
	if wire.wireAuthConfig != (wireAuthConfig{}) {
		resp.Auth = map[string]AuthConfig{"": {Username: wire.Username, Password: NewSecret(wire.Password)}}
	}
	return resp, nil
}

// checkAPIVersion reads apiVersion and kind as the kubelet does before it
// decodes strictly.
//
// kubelet: this first look is encoding/json's, which ignores case and takes
// the last of several fields; it decides between two errors, never about
// acceptance.
func checkAPIVersion(data []byte, want string) error {
	if !supported(want) {
		return decodeError(KindResponse, StageAPIVersion, "apiVersion", "request version "+unsupported(want))
	}
	var meta wireMeta
	err := json.Unmarshal(data, &meta)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && !strings.EqualFold(mistyped.Field, "apiVersion") {
		return locate(data, KindResponse, want)
	}
	if want == OutOfTree {
		return checkOutOfTree(meta, err)
	}
	// Comparing the text is comparing group and version, since the version
	// asked for has both and no further slash.
	if err != nil || meta.APIVersion != want {
		msg := "must be " + want + ", the request's version"
		if isLogin(data, meta) {
			msg += "; got a " + KindOutOfTreeResponse + " from the out-of-tree protocol; configure the plugin in a RegistryCredentialConfig"
		} else if what := printedKind(data); what != "" {
			msg += "; got " + what
		}
		return decodeError(KindResponse, StageAPIVersion, "apiVersion", msg)
	}
	return nil
}

// checkOutOfTree judges what an answer of [OutOfTree] says that it is, if it
// says anything. The version has no group: with one it is today's.
func checkOutOfTree(meta wireMeta, err error) error {
	switch {
	case meta.Kind == KindResponse || strings.HasPrefix(meta.APIVersion, Group+"/"):
		return decodeError(KindOutOfTreeResponse, StageAPIVersion, "kind", "got a "+KindResponse+
			" from the current protocol; configure the plugin in a CredentialProviderConfig (\"regcred convert\" converts a RegistryCredentialConfig)")
	case err != nil || meta.APIVersion != "" && meta.APIVersion != OutOfTree:
		return decodeError(KindOutOfTreeResponse, StageAPIVersion, "apiVersion", "must be "+OutOfTree+" if set")
	case meta.Kind != "" && meta.Kind != KindOutOfTreeResponse:
		return decodeError(KindOutOfTreeResponse, StageDecode, "kind", "must be "+KindOutOfTreeResponse+" if set")
	}
	return nil
}

// isLogin reports whether what is no answer of today's protocol is one of
// [OutOfTree], as far as that can be told.
func isLogin(data []byte, meta wireMeta) bool {
	if meta.Kind != "" || meta.APIVersion != "" && meta.APIVersion != OutOfTree {
		return meta.Kind == KindOutOfTreeResponse
	}
	var members map[string]json.RawMessage
	err := json.Unmarshal(data, &members)
	return err == nil && members["username"] != nil && members["password"] != nil
}

func unsupported(apiVersion string) string {
	if apiVersion == "" {
		return "is missing; must be " + V1 + ", v1beta1 or v1alpha1"
	}
	return "must be " + V1 + ", v1beta1 or v1alpha1"
}

func decodeError(kind string, stage Stage, field, msg string) *DecodeError {
	return &DecodeError{Kind: kind, Stage: stage, Field: field, Offset: -1, Msg: msg}
}

// encodeLine writes v as the kubelet's serializer does: HTML characters
// escaped, one newline at the end.
func encodeLine(v any) ([]byte, error) {
	var buf bytes.Buffer
	err := json.NewEncoder(&buf).Encode(v)
	return buf.Bytes(), err
}
