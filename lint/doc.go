// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package lint finds mistakes in credential provider configurations. It reports
// mistakes that the kubelet accepts, for example patterns that match no image or
// too many, exposed secrets, and executables that cannot be started.
//
//	cfg, err := config.Load("/etc/kubernetes/credential-provider-config.yaml")
//	if err != nil {
//		return err
//	}
//	for _, f := range lint.Check(cfg) {
//		fmt.Println(f.Severity, f)
//	}
//
// [config.Config.Validate] reports mistakes that the kubelet rejects. Package
// lint/pullsecret checks docker configs and pull secrets.
//
// [Check] reads only the configuration and its files' permissions. [BinDir] and
// [Binary] also read executables. No function runs a program or uses the network.
//
// A finding about a pattern is an error if and only if no image can match the
// pattern, or newer kubelets reject it. All functions are safe for concurrent use
// while the configuration does not change.
package lint
