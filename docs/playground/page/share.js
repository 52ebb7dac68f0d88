// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// A link carries a question {text, image, kubelet} behind the #, as base64url of
// compressed JSON. The part before the # is all that a browser sends.

export const largestText = 1 << 20; // characters
const largestLink = 32 << 10; // characters; longer ones are cut on their way

const deflated = "#z=";
const plain = "#p=";

// encode returns the fragment of a link, or "" if it would be too long.
export async function encode({ text, image, kubelet }) {
	const json = new TextEncoder().encode(JSON.stringify({ text, image, kubelet }));
	let fragment;
	if ("CompressionStream" in globalThis) {
		const packed = new Blob([json]).stream().pipeThrough(new CompressionStream("deflate-raw"));
		fragment = deflated + base64url(new Uint8Array(await new Response(packed).arrayBuffer()));
	} else {
		fragment = plain + base64url(json);
	}
	return fragment.length > largestLink ? "" : fragment;
}

// carries reports whether a fragment is meant to carry a question.
export function carries(fragment) {
	return fragment.startsWith(deflated) || fragment.startsWith(plain);
}

// decode returns the question of a fragment. It throws where there is none.
export async function decode(fragment) {
	if (fragment.length > largestLink) {
		throw new Error("it is too long");
	}
	let bytes = fromBase64url(fragment.slice(deflated.length));
	if (fragment.startsWith(deflated)) {
		bytes = await inflate(bytes);
	}
	const { text, image = "", kubelet = "" } = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
	if ([text, image, kubelet].some((value) => typeof value !== "string")) {
		throw new Error("it contains no configuration");
	}
	return { text, image, kubelet };
}

// inflate decompresses, within bounds: a short link may stand for much.
async function inflate(bytes) {
	const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
	const parts = [];
	for (let size = 0; ;) {
		const { done, value } = await reader.read();
		if (done) {
			return new Uint8Array(await new Blob(parts).arrayBuffer());
		}
		size += value.length;
		if (size > 4 * largestText) {
			await reader.cancel();
			throw new Error("it is too large");
		}
		parts.push(value);
	}
}

function base64url(bytes) {
	let binary = "";
	for (let i = 0; i < bytes.length; i += 4096) {
		binary += String.fromCharCode(...bytes.subarray(i, i + 4096));
	}
	return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromBase64url(text) {
	const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
	return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}
