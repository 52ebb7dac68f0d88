// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kubelet

import (
	"unsafe" // also for go:linkname

	credentialproviderapi "k8s.io/kubelet/pkg/apis/credentialprovider"
)

// Functions that exist in all kubelet versions. The other functions are in plugins.go and in files
// named after the kubelet versions that have them.

// The receiver is a *execPlugin.
//
//go:linkname encodeRequest k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).encodeRequest
func encodeRequest(execPlugin unsafe.Pointer, request *credentialproviderapi.CredentialProviderRequest) ([]byte, error)

// The receiver is a *execPlugin.
//
//go:linkname decodeResponse k8s.io/kubernetes/pkg/credentialprovider/plugin.(*execPlugin).decodeResponse
func decodeResponse(execPlugin unsafe.Pointer, data []byte) (*credentialproviderapi.CredentialProviderResponse, error)
