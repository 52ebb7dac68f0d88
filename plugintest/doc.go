// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package plugintest checks whether an executable is a good image credential
// provider plugin: it runs it many times, as a kubelet would and as nobody
// should, and says what came back, what a kubelet makes of it and how to mend
// it. Any plugin for the kubelet's exec protocol (KEP-2133, KEP-4412) can be
// checked, in whatever language it is written.
//
//	func TestConformance(t *testing.T) {
//		plugintest.Test(t, plugin.Command{Path: "./my-plugin"})
//	}
//
// [Run] is the same for other programs: it returns findings and prints
// nothing. [Checks] lists the checks; docs/conformance.md explains each.
//
// Every run goes through [plugin.Command], so nothing a plugin does can hurt
// its examiner. The plugin does what it always does, though: one that asks a
// cloud asks it some forty times. Two things follow.
//
//   - Some checks clear the environment that a plugin inherits
//     (Command.Environ), or HOME alone. What it is configured by belongs into
//     Command.Env, which every run keeps: a plugin that is pointed at a test
//     server in another way asks the real cloud in those checks. Where one of
//     the usual variables that say where AWS, Azure and Google Cloud are asked
//     would be cleared, the check is skipped.
//   - The checks of service-account mode hand it a token. Without one of
//     yours, it is made up and signed by nobody.
package plugintest
