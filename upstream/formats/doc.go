// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package formats validates regcred's machine-readable output against published schemas, with
// third-party validators.
package formats
