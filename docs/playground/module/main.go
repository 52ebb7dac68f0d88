// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build js && wasm

// Command module is the part of the playground that runs in the browser as WebAssembly.
// It runs validate and explain for a configuration.
package main

import "syscall/js"

// main sets the global object whose functions the page calls, and then notifies the page.
func main() {
	var r checker
	js.Global().Set("regcred", map[string]any{
		"newest":  newestKubelet,
		"version": version,
		"samples": sampleObjects(samples()),
		"check": js.FuncOf(func(_ js.Value, args []js.Value) any {
			return r.checkText(args[0].String(), args[1].String(), args[2].String())
		}),
	})
	js.Global().Call("regcredReady")
	select {}
}

// version is the release version, set by the linker.
var version = "(unreleased)"

func sampleObjects(all []sample) []any {
	out := make([]any, len(all))
	for i, s := range all {
		out[i] = map[string]any{"name": s.name, "title": s.title, "image": s.image, "text": s.text}
	}
	return out
}
