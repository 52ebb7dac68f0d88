// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerjson

import (
	"encoding/base64"
	"errors"
	"strings"
)

// Types of pull secrets, and the keys of their data that hold the file.
const (
	SecretTypeConfigJSON = "kubernetes.io/dockerconfigjson"
	SecretKeyConfigJSON  = ".dockerconfigjson"
	SecretTypeDockercfg  = "kubernetes.io/dockercfg"
	SecretKeyDockercfg   = ".dockercfg"
)

var errInvalidAuth = errors.New("an auth field is not base64-encoded user:password")

// DecodeAuth decodes an auth field as the kubelet does. Its error does not quote the
// field.
func DecodeAuth(s string) (user, password string, err error) {
	encoding := base64.RawStdEncoding
	// kubelet: this check ignores trailing space, but the decoder does not.
	if strings.HasSuffix(strings.TrimSpace(s), "=") {
		encoding = base64.StdEncoding
	}
	b, err := encoding.DecodeString(s)
	if err != nil {
		return "", "", errInvalidAuth
	}
	user, password, ok := strings.Cut(string(b), ":")
	if !ok {
		return "", "", errInvalidAuth
	}
	return user, password, nil
}
