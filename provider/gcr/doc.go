// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package gcr gets credentials for Google Artifact Registry and Container Registry:
// an access token of the metadata server for the node's identity, or of the
// Security Token Service for the pod's service account. It also supports docker
// configs in the instance's metadata.
//
//	provider, err := gcr.New(gcr.Options{})
//	if err != nil {
//		return err
//	}
//	plugin.Main(provider)
//
// It does not search for application default credentials, key files or gcloud, so
// that no unintended identity is used. For workload identity federation of a
// program in a pod, see [InPod].
//
// cmd/auth-provider-gcp is a plugin that replaces the one in
// kubernetes/cloud-provider-gcp.
package gcr
