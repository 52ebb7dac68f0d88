// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package pullsecret decides which image pull secrets the controller writes, gets their
// credentials from the providers of a kubelet's configuration, and renders them. Package
// controller writes them to an API server.
//
//	file, err := pullsecret.Load("/etc/regcred/pull-secrets.yaml")
//	…
//	plan := pullsecret.NewPlan(file, cfg)
//	for _, s := range plan.Secrets(namespaceLabels) {
//		fmt.Println(s.Name, s.Account, s.Providers)
//	}
//
// An [Exchanger] runs the providers and remembers their credentials. One run serves every
// namespace, except for providers with tokenAttributes, which run once per service account.
package pullsecret
