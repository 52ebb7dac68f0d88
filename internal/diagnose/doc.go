// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package diagnose guesses the cause of a failure, so that an error can name the cause
// and a fix. Its functions are pure: they take what is known about the failure and
// return a text, or "". They never decide whether something failed.
//
// Plugin output and standard error may contain passwords. The returned texts never
// quote them.
package diagnose
