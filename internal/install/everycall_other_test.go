// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build linux && !amd64

package install_test

func launchTraced() {}
