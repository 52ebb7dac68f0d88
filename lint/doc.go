// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package lint finds what a credential provider configuration should not have
// although a kubelet accepts it: patterns that match no image, or more images
// than they seem to; secrets in sight; executables that cannot be started.
//
//	cfg, err := config.Load("/etc/kubernetes/credential-provider-config.yaml")
//	…
//	for _, f := range lint.Check(cfg) {
//		fmt.Printf("%s:%d: %s: %s\n", f.File, f.Line, f.Severity, f.Message)
//	}
//
// It does not repeat what a kubelet refuses, which [config.Config.Validate]
// says. [Check] reads the configuration, and of its files only who can write
// to them; [BinDir] and [Binary] examine executables of this machine and run
// none. Nothing contacts anybody.
//
// A [Finding] names its rule, which docs/lint/README.md explains under that
// name. That a pattern has an error is exact: it has one if and only if no
// image can match it, or newer kubelets reject it. The functions are safe for
// concurrent use, as long as nobody changes the configuration.
package lint
