// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Runs the module beside the page, so that a large configuration stops nobody
// from typing. It is sent {id, text, image, kubelet} and sends {id, answer}; and
// before that {loaded, total}, in bytes, and then {ready}, or {failed}, once.

"use strict";

/* global Go, importScripts, regcred */

const moduleFile = "regcred.wasm.z";

// read reads the module, and tells how far it is.
async function read(response) {
	const total = Number(response.headers.get("Content-Length"));
	const parts = [];
	let loaded = 0;
	for (const reader = response.body.getReader(); ;) {
		const { done, value } = await reader.read();
		if (done) {
			return new Blob(parts);
		}
		parts.push(value);
		loaded += value.length;
		postMessage({ loaded, total });
	}
}

// bytes is the module itself. Some hosts decompress what they serve.
async function bytes(blob) {
	const head = new Uint8Array(await blob.slice(0, 2).arrayBuffer());
	if (head[0] === 0x1f && head[1] === 0x8b) {
		blob = await new Response(blob.stream().pipeThrough(new DecompressionStream("gzip"))).blob();
	}
	return blob.arrayBuffer();
}

async function start() {
	importScripts("wasm_exec.js");
	const response = await fetch(moduleFile, { credentials: "omit", referrerPolicy: "no-referrer" });
	if (!response.ok) {
		throw new Error(`${moduleFile}: ${response.status} ${response.statusText}`);
	}
	const go = new Go();
	const { instance } = await WebAssembly.instantiate(await bytes(await read(response)), go.importObject);
	self.regcredReady = () => postMessage({ ready: { newest: regcred.newest, version: regcred.version, samples: regcred.samples } });
	await go.run(instance);
	throw new Error("the module ended");
}

start().catch((err) => postMessage({ failed: String(err.message || err) }));

onmessage = ({ data }) => {
	postMessage({ id: data.id, answer: regcred.check(data.text, data.image, data.kubelet) });
};
