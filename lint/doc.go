// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package lint finds mistakes in credential provider configurations that the
// kubelet accepts: patterns that match no image or too many, exposed secrets,
// executables that cannot be started.
//
//	cfg, err := config.Load("/etc/kubernetes/credential-provider-config.yaml")
//	if err != nil {
//		return err
//	}
//	for _, f := range lint.Check(cfg) {
//		fmt.Println(f.Severity, f)
//	}
//
// Mistakes that the kubelet rejects are reported by [config.Config.Validate].
// Docker configs and pull secrets are checked by package lint/pullsecret.
//
// [Check] reads only the configuration and its files' permissions; [BinDir] and
// [Binary] also read executables. No function runs a program or uses the network.
// A pattern has an error if and only if no image can match it, or newer kubelets
// reject it. All functions are safe for concurrent use while the configuration
// does not change.
package lint
