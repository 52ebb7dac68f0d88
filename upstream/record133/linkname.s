// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// This file is empty: its presence lets the compiler accept the functions
// without a body in main.go.
