// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package formats checks regcred's output for other programs against published schemas,
// with third-party validators.
package formats
