// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package pullsecret tests regcred-controller with a real API server: the life of its Secrets, faults,
// and what its roles and policies allow.
package pullsecret
