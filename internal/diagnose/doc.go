// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package diagnose guesses the cause of a failure, so that an error can name the cause and
// a fix. Its functions have no side effects. They take the facts about a failure and return
// a text, or "". They never decide whether something failed.
//
// Plugin output and standard error may contain passwords. The returned texts never quote
// them.
package diagnose
