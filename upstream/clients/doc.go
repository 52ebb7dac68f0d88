// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package clients contains only tests: real registry clients pull with only
// docker-credential-regcred configured.
//
//	go test -v ./clients             the installed Debian packages
//	go test -v ./clients -args -all  also clients that must be built, which takes minutes the first time
package clients
