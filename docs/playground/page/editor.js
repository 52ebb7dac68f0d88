// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Editor is a textarea with line numbers, and with marks at lines and columns.
// Only what is in sight is drawn, however long the text.

const longest = 2000; // characters of a line beyond which only the line is marked

const ranks = ["info", "warning", "error"];

export class Editor {
	constructor(area, gutter, marks) {
		Object.assign(this, { area, gutter, layer: marks });
		this.marks = new Map(); // by line, from 1: {severity, columns}
		area.addEventListener("scroll", () => this.later());
		new ResizeObserver(() => this.later()).observe(area);
		this.changed();
	}

	get text() {
		return this.area.value;
	}

	set text(value) {
		this.area.value = value;
		this.area.scrollTop = 0;
		this.area.scrollLeft = 0;
		this.changed();
	}

	// changed is called when the text is another.
	changed() {
		this.lines = this.area.value.split("\n");
		this.gutter.style.setProperty("--digits", String(this.lines.length).length);
		this.later();
	}

	// mark marks places: {line, column, severity}.
	mark(places) {
		this.marks.clear();
		for (const { line, column, severity } of places) {
			const there = this.marks.get(line) ?? { severity, columns: [] };
			if (ranks.indexOf(severity) > ranks.indexOf(there.severity)) {
				there.severity = severity;
			}
			if (column && there.columns.length < 20) {
				there.columns.push(column);
			}
			this.marks.set(line, there);
		}
		this.later();
	}

	// show brings a place into sight, and puts the cursor there.
	show(line, column) {
		const text = this.lines[line - 1] ?? "";
		let at = 0;
		for (let i = 0; i < line - 1 && i < this.lines.length; i++) {
			at += this.lines[i].length + 1;
		}
		const [begin, end] = token(text, column || 1);
		this.area.focus();
		this.area.setSelectionRange(at + begin, at + end);
		this.area.scrollTop = (line - 3) * this.rowHeight();
	}

	rowHeight() {
		return parseFloat(getComputedStyle(this.area).lineHeight);
	}

	later() {
		this.frame ??= requestAnimationFrame(() => {
			this.frame = undefined;
			this.draw();
		});
	}

	draw() {
		const height = this.rowHeight();
		const pad = parseFloat(getComputedStyle(this.area).paddingTop);
		const { scrollTop, scrollLeft, clientHeight } = this.area;
		const first = Math.max(0, Math.floor((scrollTop - pad) / height));
		const last = Math.min(this.lines.length, Math.ceil((scrollTop - pad + clientHeight) / height) + 1);
		const numbers = [];
		const marks = [];
		for (let i = first; i < last; i++) {
			const top = `${pad + i * height - scrollTop}px`;
			const marked = this.marks.get(i + 1);
			const number = document.createElement("div");
			number.textContent = i + 1;
			number.style.top = top;
			numbers.push(number);
			if (marked) {
				number.className = marked.severity;
				const row = document.createElement("div");
				row.className = marked.severity;
				row.style.top = top;
				row.append(...underlines(this.lines[i], marked.columns, scrollLeft));
				marks.push(row);
			}
		}
		this.gutter.replaceChildren(...numbers);
		this.layer.replaceChildren(...marks);
	}
}

// underlines are invisible copies of a line, each with what stands at a column underlined.
function underlines(line, columns, scrollLeft) {
	if (line.length > longest) {
		return [];
	}
	return columns.map((column) => {
		const [begin, end] = token(line, column);
		const copy = document.createElement("pre");
		const mark = document.createElement("mark");
		mark.textContent = line.slice(begin, end) || " ";
		copy.append(line.slice(0, begin), mark);
		copy.style.left = `${-scrollLeft}px`;
		return copy;
	});
}

// token is where what begins at a column begins and ends in a string.
function token(line, column) {
	const begin = index(line, column);
	const rest = line.slice(begin, begin + longest);
	const found = /^("(?:[^"\\]|\\.)*"|'[^']*'|- *\S+|[^\s,\]}]+)/.exec(rest);
	return [begin, begin + (found ? found[0].length : rest.length)];
}

// index is where a column is in a string. Columns count bytes of UTF-8 from 1, as
// regcred does; strings of a browser count UTF-16.
function index(line, column) {
	let bytes = 1;
	let at = 0;
	for (const character of line) {
		if (bytes >= column) {
			break;
		}
		const code = character.codePointAt(0);
		bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
		at += character.length;
	}
	return at;
}
