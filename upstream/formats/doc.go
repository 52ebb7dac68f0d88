// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package formats holds what regcred prints for other programs against what is
// published about their formats, with validators of others.
package formats
