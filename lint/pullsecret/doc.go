// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package pullsecret finds mistakes in docker configs and image pull secrets, for
// example files that the kubelet cannot parse, keys that no image matches, and
// expired passwords.
//
//	r := pullsecret.Check("config.json", data, time.Now())
//	if r == nil {
//		return errors.New("config.json is not a docker config")
//	}
//	for _, f := range r.Findings {
//		fmt.Println(f.Severity, f)
//	}
//
// The package uses no network and reads no files. Results contain no user names,
// passwords or tokens. docs/lint/README.md explains the rules. All functions are
// safe for concurrent use.
package pullsecret
