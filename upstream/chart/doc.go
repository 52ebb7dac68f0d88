// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package chart tests deploy/chart and deploy/manifests with the real Helm, and against
// the real API server. Pods that run are the business of package fleet.
//
//	go test ./chart                 # what is generated has to be what is committed
//	go test ./chart -args -update   # writes it: values.schema.json, manifests/regcred.yaml
package chart
