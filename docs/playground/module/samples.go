// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build js && wasm

package main

import _ "embed"

// sample is an example configuration, and an image to look up.
type sample struct{ name, title, image, text string }

var (
	//go:embed samples/eks.yaml
	eksSample string
	//go:embed samples/gke.yaml
	gkeSample string
	//go:embed samples/aks.yaml
	aksSample string
	//go:embed samples/service-accounts.yaml
	serviceAccountsSample string
	//go:embed samples/broken.yaml
	invalidSample string
	//go:embed samples/refused.yaml
	rejectedSample string
)

// samples returns the examples. The page starts with the first.
func samples() []sample {
	return []sample{
		{"eks", "EKS: an image from another region", "602401143452.dkr.ecr.eu-central-1.amazonaws.com/eks/pause:3.10", eksSample},
		{"gke", "GKE: Artifact Registry and gcr.io", "europe-docker.pkg.dev/team/images/app:1.2", gkeSample},
		{"aks", "AKS: Azure Container Registry", "team.azurecr.io/app:1.2", aksSample},
		{"service-accounts", "Service accounts: pods pull with their own service account", "registry.example/team/app:1.2", serviceAccountsSample},
		{"broken", "Broken: accepted, but matches no image", "registry.example.com/team/app:1.2", invalidSample},
		{"refused", "Broken: the kubelet would not start", "602401143452.dkr.ecr.eu-west-1.amazonaws.com/app:1.2", rejectedSample},
	}
}
