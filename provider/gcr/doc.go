// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package gcr answers for Google Artifact Registry and Container Registry: as
// the node, by the access token of the metadata server, or as the pod's
// service account, by a token of Google's Security Token Service. A docker
// config in the instance's metadata is the third, old way.
//
//	provider, err := gcr.New(gcr.Options{})
//	if err != nil {
//		return err
//	}
//	plugin.Main(provider)
//
// It does not look for application default credentials, key files or gcloud:
// a plugin that finds an identity by chance pulls as somebody whom nobody
// chose. A program in a pod, which says so by [InPod], may be told of workload
// identity federation.
//
// cmd/auth-provider-gcp makes a plugin of it, which takes the place of the
// program of that name in kubernetes/cloud-provider-gcp.
package gcr
