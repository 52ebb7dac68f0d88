// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package clients contains only tests. In them real registry clients pull images.
// docker-credential-regcred is their only source of credentials.
//
//	go test -v ./clients             the installed Debian packages
//	go test -v ./clients -args -all  also clients that must be built, which takes minutes the first time
package clients
