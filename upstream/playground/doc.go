// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package playground tests the playground in a real browser: headless Chromium, controlled over its
// DevTools protocol, in a network with only a loopback interface. To keep the screenshots:
//
//	go test ./playground -run Screenshots -shots DIR
package playground
