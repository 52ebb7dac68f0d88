// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build js && wasm

// Command module is what the playground runs in a browser: it says of a
// configuration what validate and explain say.
package main

import "syscall/js"

// The page finds here what it needs. It is set once, before the page is told.
func main() {
	var r reader
	js.Global().Set("regcred", map[string]any{
		"newest":  newest,
		"version": version,
		"samples": list(samples()),
		"check": js.FuncOf(func(_ js.Value, args []js.Value) any {
			return r.check(args[0].String(), args[1].String(), args[2].String())
		}),
	})
	js.Global().Call("regcredReady")
	select {}
}

// version is that of the release, which the linker sets.
var version = "(unreleased)"

func list(all []sample) []any {
	out := make([]any, len(all))
	for i, s := range all {
		out[i] = map[string]any{"name": s.name, "title": s.title, "image": s.image, "text": s.text}
	}
	return out
}
