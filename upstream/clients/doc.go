// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package clients has no code but tests: real clients of registries pull with
// nothing configured but docker-credential-regcred.
//
//	go test -v ./clients             those of Debian that are installed
//	go test -v ./clients -args -all  also those that have to be built, which takes minutes once
package clients
