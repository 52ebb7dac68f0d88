// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Makes elements of an answer. Whatever comes from a configuration becomes text,
// never markup.

const rules = "https://github.com/regcred/regcred/blob/main/docs/lint/README.md#";
const most = 100; // of anything, at once

// el makes an element of a class, with children: elements or text.
function el(name, className, ...children) {
	const e = document.createElement(name);
	if (className) {
		e.className = className;
	}
	e.append(...children);
	return e;
}

const badge = (severity, word = severity) => el("span", `badge ${severity}`, word);
const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

// list makes a list of some of many things.
function list(things, make) {
	const ul = el("ul", "list", ...things.slice(0, most).map((thing) => el("li", "", make(thing))));
	return things.length > most ? [ul, el("p", "small", `and ${things.length - most} more`)] : [ul];
}

// summary says in one sentence what a kubelet would do.
export function summary(v) {
	const kubelet = v.kubeletVersion ? `Kubelet ${v.kubeletVersion}` : "";
	if (!v.valid) {
		return `${kubelet || "A kubelet"} would not start: ${count(v.problems.length, "problem")}.`;
	}
	return kubelet
		? `${kubelet} starts with this configuration: ${count(v.providers, "provider")}.`
		: `regcred supports this configuration, but no kubelet starts with it: ${count(v.providers, "provider")}.`;
}

// tally counts findings by severity.
export function tally(findings) {
	const words = [];
	for (const severity of ["error", "warning", "info"]) {
		const n = findings.filter((f) => f.severity === severity).length;
		if (n > 0) {
			words.push(count(n, severity === "info" ? "note" : severity));
		}
	}
	return words.join(", ");
}

const verdictSeverity = { credentials: "ok", matched: "ok", anonymous: "warning", unmatched: "warning", failed: "error", invalid: "error" };

// verdict shows what becomes of the kubelet, and of the image.
export function verdict(v, x, problem) {
	const found = tally(v.findings);
	const severity = !v.valid || v.findings.some((f) => f.severity === "error") ? "error"
		: !v.kubeletVersion || v.findings.some((f) => f.severity === "warning") ? "warning" : "ok";
	const first = el("div", `card ${severity}`,
		el("p", "title", badge(v.valid ? "ok" : "error", v.valid ? "accepted" : "rejected"), summary(v)));
	if (found) {
		first.append(el("p", "", v.valid ? `But: ${found}.` : `Also: ${found}.`));
	}
	if (v.valid && v.hash) {
		first.append(el("p", "small", "Configuration hash, as in the kubelet’s metric: ", el("code", "", v.hash)));
	}
	const cards = [el("h2", "", "Verdict"), first];
	if (x && x.verdict.outcome !== "invalid") {
		const matched = x.verdict.outcome === "matched";
		const [short, ...more] = x.verdict.text.split("; "); // what it is, then why and what comes of it
		cards.push(el("div", `card ${verdictSeverity[x.verdict.outcome]}`,
			el("p", "title", badge(matched ? "ok" : "warning", matched ? "matched" : "no match"), sentence(short)),
			...more.length > 0 ? [el("p", "", sentence(more.join("; ")))] : []));
	} else if (problem) {
		cards.push(el("div", "card error", el("p", "title", badge("error", "image"), capital(problem))));
	}
	return cards;
}

// capital begins a verdict; what findings say may begin with a field's name.
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const sentence = (text) => `${capital(text)}.`;

// findings shows what is wrong, worst first. show(line, column) goes to a place.
export function findings(v, show) {
	const all = [
		...v.problems.map((p) => ({ ...p, severity: "error", label: "rejected" })),
		...["error", "warning", "info"].flatMap((severity) => v.findings.filter((f) => f.severity === severity)),
	];
	if (all.length === 0) {
		return [];
	}
	return [el("h2", "", "Findings"), ...list(all, (f) => finding(f, show))];
}

const cure = (text) => el("p", "cure", el("span", "title", "Fix: "), el("span", "mono", text));

function finding(f, show) {
	const head = el("p", "", badge(f.severity, f.label));
	if (f.line) {
		const where = el("button", "where", f.column ? `line ${f.line}, column ${f.column}` : `line ${f.line}`);
		where.type = "button";
		where.addEventListener("click", () => show(f.line, f.column));
		head.append(where, " ");
	}
	head.append(el("code", "small", f.path ?? ""));
	const card = el("div", `card ${f.severity}`, head, el("p", "", f.message, ...(f.value ? [": ", el("code", "", f.value)] : [])));
	if (f.suggestion) {
		card.append(cure(f.suggestion));
	}
	if (f.rule) {
		const link = el("a", "", f.rule);
		link.href = rules + encodeURIComponent(`${f.rule}-${f.severity}`); // the heading's
		link.rel = "noreferrer";
		card.append(el("p", "small", "Rule ", link));
	}
	return card;
}

// providers shows for each which pattern matches, or where the nearest fails. Those
// named in open have all their patterns in sight.
export function providers(x, open) {
	if (!x || x.providers.length === 0) {
		return [];
	}
	return [
		el("h2", "", "Providers for ", el("code", "", x.repository)),
		...list(x.providers, (p) => provider(p, x.repository, open, p.index === x.nearest)),
	];
}

// provider is one of them; of the nearest it says what would match.
function provider(p, repository, open, nearest) {
	const card = el("div", `card ${p.matched ? "ok" : "info"}`,
		el("p", "title", badge(p.matched ? "ok" : "no", p.matched ? "called" : "not called"), p.name));
	if (p.matched) {
		card.append(el("dl", "compare", el("dt", "", "matches"), el("dd", "", el("code", "same", p.pattern))));
	} else if (p.pattern) {
		card.append(compare(p, repository), el("p", "", p.reason));
		if (p.instead && nearest) {
			card.append(cure(p.instead));
		}
	}
	if (p.patterns.length > 1) {
		card.append(patterns(p, open));
	}
	return card;
}

// compare shows a pattern above an image, with the segment marked in which they differ.
function compare({ pattern, reason }, repository) {
	return el("dl", "compare",
		el("dt", "", "nearest"), el("dd", "", segments(pattern, reason)),
		el("dt", "", "image"), el("dd", "", segments(repository, reason)));
}

// segments splits what is compared where a reason says that it differs.
function segments(text, reason) {
	const [, host, port = "", path = ""] = /^(\[[^\]]*\]|[^/:]*)(:[^/]*)?(\/.*)?$/s.exec(text) ?? [null, text];
	const label = /^label (\d+): /.exec(reason);
	const at = Number(label?.[1]) - 1;
	const labels = host.split(".");
	const code = el("code");
	if (label && labels[at] !== undefined) {
		code.append(...labels.flatMap((part, i) => [i ? "." : "", i === at ? el("mark", "", part) : part]), port, path);
	} else if (reason.startsWith("scheme: ")) {
		const [scheme] = /^[a-z]+:\/\//i.exec(text) ?? [""];
		code.append(scheme && el("mark", "", scheme), text.slice(scheme.length));
	} else if (reason.startsWith("host: ")) {
		code.append(el("mark", "", host), port, path);
	} else if (reason.startsWith("port: ")) {
		code.append(host, el("mark", "", port || ":"), path);
	} else if (reason.startsWith("path: ")) {
		code.append(host, port, el("mark", "", path || "/"));
	} else {
		code.append(text);
	}
	return code;
}

// patterns are all of a provider's, made when they are wanted.
function patterns(p, open) {
	const details = el("details", "", el("summary", "", `All ${p.patterns.length} patterns`));
	const fill = () => {
		if (details.open && details.children.length === 1) {
			details.append(...list(p.patterns, (one) => el("div", "", badge(one.matched ? "ok" : "no", one.matched ? "matches" : "no"),
				el("code", "", one.pattern), el("div", "small", one.reason ?? ""))));
		}
	};
	details.open = open.has(p.name);
	fill();
	details.addEventListener("toggle", () => {
		details.open ? open.add(p.name) : open.delete(p.name);
		fill();
	});
	return details;
}
