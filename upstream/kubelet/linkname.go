// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet

import (
	"unsafe" // also for go:linkname

	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
)

// Functions that exist in all versions. The rest is in plugins.go and in files named after
// the versions to which they apply.

// The receiver is a *execPlugin.
//
//go:linkname encodeRequest k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).encodeRequest
func encodeRequest(execPlugin unsafe.Pointer, request *credentialproviderapi.CredentialProviderRequest) ([]byte, error)

// The receiver is a *execPlugin.
//
//go:linkname decodeResponse k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).decodeResponse
func decodeResponse(execPlugin unsafe.Pointer, data []byte) (*credentialproviderapi.CredentialProviderResponse, error)
