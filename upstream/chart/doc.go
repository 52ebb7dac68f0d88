// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package chart tests deploy/chart and deploy/manifests with the real Helm, and against a real API
// server. Package fleet tests running pods.
//
//	go test ./chart                 # fails if the committed generated files are outdated
//	go test ./chart -args -update   # writes them: values.schema.json, manifests/regcred.yaml
package chart
