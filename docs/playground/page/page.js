// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// The page: what is asked, and what is shown of the answer. Nothing is stored, and
// nothing is requested but the page's own files.

import { Asker } from "./asker.js";
import { Editor } from "./editor.js";
import { carries, decode, encode, largestText } from "./share.js";
import * as view from "./view.js";

const $ = (id) => document.getElementById(id);
const editor = new Editor($("config"), $("gutter"), $("marks"));
const open = new Set(); // providers all of whose patterns are in sight
let samples = [];
let touched = false; // by a person or a link: no sample takes its place
let last = null; // {answer, question}
let typed = 0; // when

const asker = new Asker({ ready, progress, answer, failed });

function question() {
	return { text: editor.text, image: $("image").value.trim(), kubelet: $("kubelet").value };
}

const mostLines = 20_000; // many more, and browsers take minutes to lay them out

// tooLarge says why a text is not looked at, or "".
function tooLarge(text) {
	const mib = Math.ceil(text.length / largestText * 10) / 10;
	if (text.length > largestText) {
		return `The text has ${mib} MiB, but this page accepts at most 1 MiB. Use the command regcred validate.`;
	}
	const lines = text.split("\n").length;
	return lines > mostLines ? `The text has ${lines} lines, but this page accepts at most ${mostLines}. Use the command regcred validate.` : "";
}

// refuse keeps out what somebody brings, before the browser lays it out.
function refuse(event, text) {
	const why = tooLarge(text ?? "");
	if (why) {
		event.preventDefault();
		state(why, true);
		speak(why);
	}
}
$("config").addEventListener("paste", (event) => refuse(event, event.clipboardData?.getData("text/plain")));
$("config").addEventListener("drop", (event) => refuse(event, event.dataTransfer?.getData("text/plain")));

// ask asks about what is there now.
function ask() {
	typed = performance.now();
	$("answer").ariaBusy = "true";
	const why = tooLarge(editor.text);
	if (why) {
		state(why, true);
		clear();
		return;
	}
	asker.ask(question());
}

function ready({ newest, version, samples: list }) {
	if (samples.length > 0) {
		return; // it began anew, and waits for another question
	}
	state("");
	$("version").textContent = version;
	samples = list;
	$("sample").append(...samples.map(({ name, title }) => new Option(title, name)));
	$("sample").disabled = false;
	const minor = Number(newest.split(".")[1]);
	$("kubelet").options[0].text = `${newest}, the newest known`;
	for (let i = minor; i >= 20; i--) {
		$("kubelet").append(new Option(`1.${i}`, `1.${i}`));
	}
	begin();
}

// begin shows what a link carries or, if nobody has typed anything, a sample.
async function begin() {
	if (carries(location.hash)) {
		await restore();
	} else if (!touched) {
		take(samples[0]);
	} else {
		ask();
	}
}

function take({ name, image, text }) {
	$("sample").value = name;
	$("image").value = image;
	editor.text = text;
	ask();
}

function progress(loaded, total) {
	const bar = $("progress");
	bar.hidden = false;
	if (total > 0) {
		bar.max = total;
		bar.value = loaded;
	}
}

// state says how it stands with the module, or with what is asked.
function state(text, bad = false) {
	$("state").hidden = text === "";
	$("state").classList.toggle("error", bad);
	$("stateText").textContent = text;
	$("progress").hidden = true;
}

function failed(why) {
	if (why.includes("call stack")) {
		why = "the configuration is nested too deeply for a browser";
	}
	const fix = location.protocol === "file:" ? "A page opened as a file cannot load the module. Run: go run ./docs/playground"
		: typeof WebAssembly === "undefined" ? "This browser has no WebAssembly. Use another browser, or the command regcred validate."
		: "Change it and try again, or use the command regcred validate.";
	state(`The check failed: ${why}. ${fix}`, true);
	clear();
}

function clear() {
	last = null;
	for (const id of ["verdict", "findings", "providers"]) {
		$(id).replaceChildren();
	}
	editor.mark([]);
	speak($("stateText").textContent);
	$("answer").ariaBusy = "false";
}

function answer(result, asked) {
	last = { answer: result, question: asked };
	if (result.validationError) {
		failed(result.validationError);
		return;
	}
	state("");
	const v = JSON.parse(result.validation);
	const x = result.explanation && JSON.parse(result.explanation);
	$("verdict").replaceChildren(...view.verdict(v, x, result.explanationError));
	$("findings").replaceChildren(...view.findings(v, (line, column) => editor.show(line, column)));
	$("providers").replaceChildren(...view.providers(x, open));
	editor.mark([...v.problems.map((p) => ({ ...p, severity: "error" })), ...v.findings].filter((f) => f.line));
	$("config").ariaInvalid = String(!v.valid);
	$("answer").ariaBusy = "false";
	speak([view.summary(v), view.tally(v.findings), x && x.verdict.outcome !== "invalid" ? x.verdict.text : result.explanationError].filter(Boolean).join(" "));
	performance.clearMeasures("answer");
	performance.measure("answer", { start: typed });
}

// speak says to a screen reader what the answer is, when typing pauses.
let speaking;
function speak(text) {
	clearTimeout(speaking);
	speaking = setTimeout(() => {
		$("spoken").textContent = text;
	}, 800);
}

// edited is called when a person changed the question. A link that brought it is
// no longer what is here.
function edited() {
	touched = true;
	$("sample").value = "";
	if (carries(location.hash)) {
		history.replaceState(null, "", location.pathname + location.search);
	}
	ask();
}

$("config").addEventListener("input", () => {
	editor.changed();
	edited();
});
$("image").addEventListener("input", edited);
$("kubelet").addEventListener("change", () => {
	touched = true;
	ask();
});
$("sample").addEventListener("change", () => {
	const sample = samples.find(({ name }) => name === $("sample").value);
	if (sample) {
		edited();
		take(sample);
	}
});

async function restore() {
	try {
		const { text, image, kubelet } = await decode(location.hash);
		touched = true;
		$("sample").value = "";
		$("image").value = image;
		$("kubelet").value = kubelet;
		if ($("kubelet").selectedIndex < 0) {
			$("kubelet").value = "";
		}
		const why = tooLarge(text);
		if (why) {
			throw new Error(why);
		}
		editor.text = text;
		ask();
	} catch (err) {
		clear();
		state(`Cannot read the link: ${err.message || err}. Check that the link is complete.`, true);
	}
}
addEventListener("hashchange", () => {
	if (carries(location.hash) && samples.length > 0) {
		restore();
	}
});

// Sharing: a link is made when somebody asks for it, and after a warning if it
// would carry what may be secret.

function part(id, shown) {
	$(id).hidden = !shown;
}

$("share").addEventListener("click", () => {
	const { text, image, kubelet } = question();
	const known = last && last.question.text === text && last.question.image === image && last.question.kubelet === kubelet;
	const secret = !known || last.answer.mayBeSecret;
	$("warningText").textContent = known && last.answer.validation && JSON.parse(last.answer.validation).hash
		? "The configuration has arguments or environment variables (args, env), which may contain secrets."
		: "The text is not a valid configuration, so it may contain secrets.";
	part("warning", secret);
	part("make", secret);
	part("linkPart", false);
	part("copy", false);
	$("dialog").showModal();
	if (!secret) {
		make();
	}
});

async function make() {
	part("warning", false);
	part("make", false);
	const fragment = await encode(question());
	part("linkPart", true);
	$("copied").textContent = "";
	if (fragment === "") {
		$("link").value = "";
		$("copied").textContent = "The configuration is too large for a link. Send the file instead.";
		return;
	}
	history.replaceState(null, "", fragment);
	$("link").value = location.href;
	part("copy", true);
	$("link").focus();
	$("link").select();
}

$("make").addEventListener("click", make);
$("copy").addEventListener("click", async () => {
	try {
		await navigator.clipboard.writeText($("link").value);
		$("copied").textContent = "Copied.";
	} catch {
		$("link").select();
		$("copied").textContent = "The browser does not allow copying. Press Ctrl+C.";
	}
});
$("close").addEventListener("click", () => $("dialog").close());
$("dialog").addEventListener("close", () => $("share").focus());
