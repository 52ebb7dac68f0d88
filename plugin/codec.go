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
// input for req: one line in the version that req names. Versions before [V1]
// do not carry the service-account fields, and lose them.
func EncodeRequest(req *Request) ([]byte, error) {
	if !supported(req.APIVersion) {
		return nil, fmt.Errorf("encode %s: apiVersion %s", KindRequest, unsupported(req.APIVersion))
	}
	wire := wireRequest{
		wireMeta: wireMeta{Kind: KindRequest, APIVersion: req.APIVersion},
		Image:    req.Image,
	}
	if hasServiceAccount(req.APIVersion) {
		wire.ServiceAccountToken = string(req.ServiceAccountToken)
		wire.ServiceAccountAnnotations = req.ServiceAccountAnnotations
	}
	return encodeLine(wire)
}

// DecodeRequest reads a request as a plugin gets it. Field names are
// case-sensitive, kind, a supported apiVersion and image are required, and
// duplicate fields and trailing bytes are refused; fields that are not known
// are ignored, so that a later kubelet may add some.
//
// Errors are of type [*DecodeError].
func DecodeRequest(data []byte) (*Request, error) {
	if err := checkWhole(data, KindRequest); err != nil {
		return nil, err
	}
	var wire wireRequest
	strict, err := kjson.UnmarshalStrict(data, &wire, kjson.DisallowDuplicateFields)
	if err != nil || len(strict) > 0 {
		return nil, locate(data, KindRequest, V1)
	}
	if wire.Kind != KindRequest {
		return nil, decodeError(KindRequest, StageDecode, "kind", "must be "+KindRequest)
	}
	if !supported(wire.APIVersion) {
		return nil, decodeError(KindRequest, StageAPIVersion, "apiVersion", unsupported(wire.APIVersion))
	}
	if wire.Image == "" {
		return nil, decodeError(KindRequest, StageDecode, "image", "must not be empty")
	}
	req := &Request{APIVersion: wire.APIVersion, Image: wire.Image}
	if hasServiceAccount(wire.APIVersion) {
		req.ServiceAccountToken = Secret(wire.ServiceAccountToken)
		req.ServiceAccountAnnotations = wire.ServiceAccountAnnotations
	}
	return req, nil
}

// EncodeResponse returns the bytes that a plugin writes to its standard
// output for resp: one line in the version that resp names. It refuses text
// that is not UTF-8, which JSON would silently change.
func EncodeResponse(resp *Response) ([]byte, error) {
	if !supported(resp.APIVersion) {
		return nil, fmt.Errorf("encode %s: apiVersion %s", KindResponse, unsupported(resp.APIVersion))
	}
	wire := wireResponse{
		wireMeta:      wireMeta{Kind: KindResponse, APIVersion: resp.APIVersion},
		CacheKeyType:  string(resp.CacheKeyType),
		CacheDuration: (*wireDuration)(resp.CacheDuration),
	}
	for key, auth := range resp.Auth {
		if !utf8.ValidString(key) || !utf8.ValidString(auth.Username) || !utf8.ValidString(string(auth.Password)) {
			return nil, fmt.Errorf("encode %s: auth: a key, user name or password is not UTF-8", KindResponse)
		}
		if wire.Auth == nil {
			wire.Auth = make(map[string]wireAuthConfig, len(resp.Auth))
		}
		wire.Auth[key] = wireAuthConfig{Username: auth.Username, Password: string(auth.Password)}
	}
	return encodeLine(wire)
}

// DecodeResponse reads the answer of a plugin that was asked in apiVersion.
// It accepts and rejects what kubelet 1.36 accepts and rejects
// (pkg/credentialprovider/plugin/plugin.go): unknown, duplicate and wrong-case
// fields and trailing bytes are refused. As in the kubelet, cacheKeyType may
// be anything here; [Command] checks it afterwards.
//
// Errors are of type [*DecodeError].
func DecodeResponse(data []byte, apiVersion string) (*Response, error) {
	if err := checkWhole(data, KindResponse); err != nil {
		return nil, err
	}
	if err := checkAPIVersion(data, apiVersion); err != nil {
		return nil, err
	}
	var wire wireResponse
	strict, err := kjson.UnmarshalStrict(data, &wire)
	if err != nil || len(strict) > 0 {
		return nil, locate(data, KindResponse, apiVersion)
	}
	if wire.Kind != KindResponse {
		return nil, decodeError(KindResponse, StageDecode, "kind", "must be "+KindResponse)
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
		resp.Auth[key] = AuthConfig{Username: auth.Username, Password: Secret(auth.Password)}
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
		return decodeError(KindResponse, StageAPIVersion, "apiVersion", "that of the request "+unsupported(want))
	}
	var meta wireMeta
	err := json.Unmarshal(data, &meta)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && !strings.EqualFold(mistyped.Field, "apiVersion") {
		return locate(data, KindResponse, want)
	}
	// Comparing the text is comparing group and version, since the version
	// asked for has both and no further slash.
	if err != nil || meta.APIVersion != want {
		return decodeError(KindResponse, StageAPIVersion, "apiVersion", "must be "+want+", the version of the request")
	}
	return nil
}

func unsupported(apiVersion string) string {
	if apiVersion == "" {
		return "is missing; the versions are " + V1 + ", v1beta1 and v1alpha1"
	}
	return "is not one of " + V1 + ", v1beta1 and v1alpha1"
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
