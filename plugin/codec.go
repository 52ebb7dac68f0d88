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

	"github.com/regcred/regcred/internal/diagnose"
	"github.com/regcred/regcred/internal/protocol"
)

// The wire structs hold secrets as strings, because a [Secret] cannot be marshaled. Use them
// only in this file.

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

// wireOutOfTree is the response of [OutOfTree].
type wireOutOfTree struct {
	wireMeta
	ExpirationTimestamp *wireTime `json:"expirationTimestamp,omitempty"`
	wireAuthConfig
}

// wireTime is a time with the encoding of metav1.Time.
type wireTime time.Time

func (t *wireTime) UnmarshalText(text []byte) error {
	parsed, err := parseTime(string(text))
	*t = wireTime(parsed)
	return err
}

func (t wireTime) MarshalText() ([]byte, error) {
	return []byte(time.Time(t).UTC().Format(time.RFC3339)), nil
}

func parseTime(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) }

// wireDuration is a duration with the encoding of metav1.Duration.
type wireDuration time.Duration

func (d *wireDuration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = wireDuration(parsed)
	return err
}

func (d wireDuration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// EncodeRequest returns the line that a kubelet writes to a plugin's standard input.
// req.APIVersion determines the format. Versions other than [V1] omit the service-account
// fields. EncodeRequest is for programs that do not use [Command.Run].
func EncodeRequest(req *Request) ([]byte, error) {
	if !protocol.IsSupported(req.APIVersion) {
		return nil, fmt.Errorf("encode %s: apiVersion: %s", protocol.KindRequest, unsupportedVersionText(req.APIVersion))
	}
	wire := wireRequest{Image: req.Image}
	if req.APIVersion != OutOfTree {
		wire.wireMeta = wireMeta{Kind: protocol.KindRequest, APIVersion: req.APIVersion}
	}
	if protocol.HasServiceAccount(req.APIVersion) {
		wire.ServiceAccountToken = req.ServiceAccountToken.Reveal()
		wire.ServiceAccountAnnotations = req.ServiceAccountAnnotations
	}
	return encodeLine(wire)
}

// decodeRequest decodes the standard input of a plugin. Field names are case-sensitive. kind,
// image and a supported apiVersion are required. Duplicate fields and trailing bytes are
// errors. Unknown fields are ignored, because a later kubelet may add some.
//
// An object that contains only an image is an [OutOfTree] request. That protocol also requires
// the argument get-credentials. The caller must check it, as [Serve] does.
//
// Errors are of type *decodeError.
func decodeRequest(data []byte) (*Request, error) {
	if err := checkSingleJSONValue(data, protocol.KindRequest); err != nil {
		return nil, err
	}
	if image, ok := parseImageOnly(data); ok {
		return &Request{APIVersion: OutOfTree, Image: image}, nil
	}
	var wire wireRequest
	strict, err := kjson.UnmarshalStrict(data, &wire, kjson.DisallowDuplicateFields)
	if err != nil || len(strict) > 0 {
		return nil, locateDecodeError(data, protocol.KindRequest, V1)
	}
	if wire.Kind != protocol.KindRequest {
		return nil, newDecodeError(protocol.KindRequest, StageDecode, "kind", "must be "+protocol.KindRequest)
	}
	if !protocol.IsInKubelet(wire.APIVersion) {
		return nil, newDecodeError(protocol.KindRequest, StageAPIVersion, "apiVersion", unsupportedVersionText(wire.APIVersion))
	}
	if wire.Image == "" {
		return nil, newDecodeError(protocol.KindRequest, StageDecode, "image", "must not be empty")
	}
	req := &Request{APIVersion: wire.APIVersion, Image: wire.Image}
	if protocol.HasServiceAccount(wire.APIVersion) {
		req.ServiceAccountToken = NewSecret(wire.ServiceAccountToken)
		req.ServiceAccountAnnotations = wire.ServiceAccountAnnotations
	}
	return req, nil
}

// parseImageOnly returns the image of a request that has no other fields. It returns false for
// other requests.
func parseImageOnly(data []byte) (string, bool) {
	var wire struct {
		Image string `json:"image"`
	}
	strict, err := kjson.UnmarshalStrict(data, &wire)
	return wire.Image, err == nil && len(strict) == 0 && wire.Image != ""
}

// encodeResponse returns the line that a plugin writes to its standard output. resp.APIVersion
// determines the format. Text that is not UTF-8 is an error, because JSON would silently change
// it.
//
// For [OutOfTree], more than one credential is an error. The credential's key and the
// CacheKeyType are not written. A positive CacheDuration is written as the time at which it
// ends, in whole seconds.
func encodeResponse(resp *Response, now time.Time) ([]byte, error) {
	if !protocol.IsSupported(resp.APIVersion) {
		return nil, fmt.Errorf("encode %s: apiVersion: %s", protocol.KindResponse, unsupportedVersionText(resp.APIVersion))
	}
	for key, auth := range resp.Auth {
		if !utf8.ValidString(key) || !utf8.ValidString(auth.Username) || !utf8.ValidString(auth.Password.Reveal()) {
			return nil, fmt.Errorf("encode %s: auth: a key, user name or password is not valid UTF-8", protocol.KindForVersion(resp.APIVersion, protocol.KindResponse))
		}
	}
	if resp.APIVersion == OutOfTree {
		return encodeOutOfTree(resp, now)
	}
	wire := wireResponse{
		wireMeta:      wireMeta{Kind: protocol.KindResponse, APIVersion: resp.APIVersion},
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

func encodeOutOfTree(resp *Response, now time.Time) ([]byte, error) {
	if n := len(resp.Auth); n > 1 {
		return nil, fmt.Errorf("encode %s: auth has %d credentials, but the out-of-tree protocol supports only one", protocol.KindOutOfTreeResponse, n)
	}
	wire := wireOutOfTree{wireMeta: wireMeta{Kind: protocol.KindOutOfTreeResponse, APIVersion: OutOfTree}}
	if d := resp.CacheDuration; d != nil && *d > 0 {
		wire.ExpirationTimestamp = new(wireTime(now.Add(*d)))
	}
	for _, auth := range resp.Auth {
		wire.wireAuthConfig = wireAuthConfig{Username: auth.Username, Password: auth.Password.Reveal()}
	}
	return encodeLine(wire)
}

// DecodeResponse decodes a plugin's standard output, for programs that do not use [Command].
// apiVersion is the version of the request. DecodeResponse accepts and rejects what kubelet 1.37
// does (pkg/credentialprovider/plugin/plugin.go): unknown, duplicate and wrong-case fields and
// trailing bytes are errors. It accepts any cacheKeyType, which [Command] checks. Errors contain
// the name of a field, but never a value.
//
// For [OutOfTree], the CacheKeyType is [CacheImage], and the CacheDuration is the time until
// expirationTimestamp. The CacheDuration is 0 if expirationTimestamp is missing or has passed.
// There is at most one credential, with the key "".
func DecodeResponse(data []byte, apiVersion string) (*Response, error) {
	return decodeResponse(data, apiVersion, time.Now())
}

// decodeResponse is like DecodeResponse, with now as the current time. Errors are of type
// *decodeError.
func decodeResponse(data []byte, apiVersion string, now time.Time) (*Response, error) {
	if err := checkSingleJSONValue(data, protocol.KindForVersion(apiVersion, protocol.KindResponse)); err != nil {
		return nil, describeOutput(err, data)
	}
	if err := checkAPIVersion(data, apiVersion); err != nil {
		return nil, err
	}
	if apiVersion == OutOfTree {
		return decodeOutOfTree(data, now)
	}
	var wire wireResponse
	strict, err := kjson.UnmarshalStrict(data, &wire)
	if err != nil || len(strict) > 0 {
		return nil, locateDecodeError(data, protocol.KindResponse, apiVersion)
	}
	if wire.Kind != protocol.KindResponse {
		msg := "must be " + protocol.KindResponse
		if what := diagnose.ExplainValue(data); what != "" {
			msg += "; got " + what
		}
		return nil, newDecodeError(protocol.KindResponse, StageDecode, "kind", msg)
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

func decodeOutOfTree(data []byte, now time.Time) (*Response, error) {
	// This protocol has no required fields, so the decoder would accept null.
	if at := skipSeparators(data, 0); data[at] != '{' {
		return nil, &decodeError{Kind: protocol.KindOutOfTreeResponse, Stage: StageDecode, Offset: at, Msg: "must be an object"}
	}
	var wire wireOutOfTree
	strict, err := kjson.UnmarshalStrict(data, &wire)
	if err != nil || len(strict) > 0 {
		return nil, locateDecodeError(data, protocol.KindResponse, OutOfTree)
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

// checkAPIVersion checks apiVersion and kind before the strict decoding.
//
// kubelet: it decodes the two fields with encoding/json, which ignores case and uses the last
// of duplicate fields. This only affects which of two errors is returned.
func checkAPIVersion(data []byte, want string) error {
	if !protocol.IsSupported(want) {
		return newDecodeError(protocol.KindResponse, StageAPIVersion, "apiVersion", "request version "+unsupportedVersionText(want))
	}
	var meta wireMeta
	err := json.Unmarshal(data, &meta)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && !strings.EqualFold(mistyped.Field, "apiVersion") {
		return locateDecodeError(data, protocol.KindResponse, want)
	}
	if want == OutOfTree {
		return checkOutOfTree(meta, err)
	}
	// The request's version has exactly one slash, so it is sufficient to compare the strings
	// instead of group and version.
	if err != nil || meta.APIVersion != want {
		msg := "must be " + want + ", the request's version"
		if isOutOfTree(data, meta) {
			msg += "; got a " + protocol.KindOutOfTreeResponse + " from the out-of-tree protocol; configure the plugin in a RegistryCredentialConfig"
		} else if what := diagnose.ExplainValue(data); what != "" {
			msg += "; got " + what
		}
		return newDecodeError(protocol.KindResponse, StageAPIVersion, "apiVersion", msg)
	}
	return nil
}

// checkOutOfTree checks the optional kind and version of an [OutOfTree] response. A
// version with a group belongs to the kubelet's protocol.
func checkOutOfTree(meta wireMeta, err error) error {
	switch {
	case meta.Kind == protocol.KindResponse || strings.HasPrefix(meta.APIVersion, protocol.Group+"/"):
		return newDecodeError(protocol.KindOutOfTreeResponse, StageAPIVersion, "kind", "got a "+protocol.KindResponse+
			" from the current protocol; configure the plugin in a CredentialProviderConfig (\"regcred convert\" converts a RegistryCredentialConfig)")
	case err != nil || meta.APIVersion != "" && meta.APIVersion != OutOfTree:
		return newDecodeError(protocol.KindOutOfTreeResponse, StageAPIVersion, "apiVersion", "must be "+OutOfTree+" if set")
	case meta.Kind != "" && meta.Kind != protocol.KindOutOfTreeResponse:
		return newDecodeError(protocol.KindOutOfTreeResponse, StageDecode, "kind", "must be "+protocol.KindOutOfTreeResponse+" if set")
	}
	return nil
}

// isOutOfTree reports whether a message looks like a response of the [OutOfTree] protocol.
func isOutOfTree(data []byte, meta wireMeta) bool {
	if meta.Kind != "" || meta.APIVersion != "" && meta.APIVersion != OutOfTree {
		return meta.Kind == protocol.KindOutOfTreeResponse
	}
	var members map[string]json.RawMessage
	err := json.Unmarshal(data, &members)
	return err == nil && members["username"] != nil && members["password"] != nil
}

// describeOutput adds a description of the output to an error of [checkSingleJSONValue].
func describeOutput(e *decodeError, data []byte) *decodeError {
	switch why := diagnose.ExplainOutput(data, e.Offset); {
	case why == "":
	case e.Msg == emptyOutputMessage:
		e.Msg = why
	default:
		e.Msg += ": " + why
	}
	return e
}

func unsupportedVersionText(apiVersion string) string {
	if apiVersion == "" {
		return "is missing; must be " + V1 + ", v1beta1 or v1alpha1"
	}
	return "must be " + V1 + ", v1beta1 or v1alpha1"
}

func newDecodeError(kind string, stage Stage, field, msg string) *decodeError {
	return &decodeError{Kind: kind, Stage: stage, Field: field, Offset: -1, Msg: msg}
}

// encodeLine encodes v like the kubelet's serializer: it escapes HTML characters and
// appends a newline.
func encodeLine(v any) ([]byte, error) {
	var buf bytes.Buffer
	err := json.NewEncoder(&buf).Encode(v)
	return buf.Bytes(), err
}
