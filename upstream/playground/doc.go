// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package playground tests the playground in a real browser: Chromium without a
// window, driven over its DevTools protocol, in a network with nothing but
// loopback. To see the page as it was seen:
//
//	go test ./playground -run Shots -shots DIR
package playground
