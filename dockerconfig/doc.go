// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerconfig reads docker's credential files, config.json and the
// older .dockercfg, as the kubelet reads them: `auths` alone, without calling
// helpers. Kubernetes image pull secrets have the same two forms.
//
// It does not look for files, does not match images, and does not write:
//
//	auths, err := dockerconfig.Parse(data)
//
// Errors never hold anything of the file's content.
package dockerconfig
