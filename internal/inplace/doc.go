// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package inplace is what a new file needs of the system so that it can come
// in the place of another by a rename: the other's owner, and that the rename
// lasts.
package inplace
