// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package dockerconfig reads docker's credential files: config.json and the
// older .dockercfg.
package dockerconfig
