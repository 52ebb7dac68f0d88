// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package diagnose guesses the cause of a failure, so that an error can name it
// together with a fix. Its functions are pure: they get what is known of the
// failure, return a text or "", and never decide whether something failed.
//
// Plugin output and standard error may contain passwords. The texts never quote
// them.
package diagnose
