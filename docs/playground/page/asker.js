// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Asker asks the module, which runs in a worker: one question at a time, and of
// those that come meanwhile the last alone.

const patience = 20_000; // milliseconds, after which an answer is given up

export class Asker {
	// on has ready({newest, version, samples}), progress(loaded, total),
	// answer(answer, question) and failed(why).
	constructor(on) {
		this.on = on;
		this.asked = 0; // questions that were put to the module
		this.waiting = null;
		this.current = null;
		this.start();
	}

	start() {
		this.ready = false;
		try {
			this.worker = new Worker("worker.js");
		} catch (err) {
			this.fail(String(err.message || err));
			return;
		}
		this.worker.onmessage = ({ data }) => this.receive(data);
		this.worker.onerror = (event) => {
			event.preventDefault();
			this.fail(event.message || "cannot load the worker");
		};
	}

	receive(data) {
		if (data.ready) {
			this.ready = true;
			this.on.ready(data.ready);
			this.next();
		} else if (data.failed) {
			this.fail(data.failed);
		} else if (data.loaded) {
			this.on.progress(data.loaded, data.total);
		} else if (this.current && data.id === this.current.id) {
			const question = this.current;
			clearTimeout(this.timer);
			this.current = null;
			if (!this.waiting) { // otherwise the answer is old news
				this.on.answer(data.answer, question);
			}
			this.next();
		}
	}

	// ask puts a question {text, image, kubelet}, now or when the one before is answered.
	ask(question) {
		this.waiting = question;
		this.next();
	}

	next() {
		if (!this.ready || this.current || !this.waiting) {
			return;
		}
		this.current = { ...this.waiting, id: ++this.asked };
		this.waiting = null;
		this.timer = setTimeout(() => this.giveUp(), patience);
		const { id, text, image, kubelet } = this.current;
		this.worker.postMessage({ id, text, image, kubelet });
	}

	// giveUp begins anew with a module that is not at work.
	giveUp() {
		this.worker.terminate();
		this.current = null;
		this.on.failed("no result within 20 seconds; use a smaller configuration");
		this.start();
	}

	fail(why) {
		clearTimeout(this.timer);
		const began = this.ready;
		this.worker?.terminate();
		this.current = null;
		this.ready = false;
		this.on.failed(why);
		if (began) { // it worked before: what failed is that question
			this.start();
		}
	}
}
