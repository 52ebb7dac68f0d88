// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

// EventKind is the kind of an [Event].
type EventKind string

// The events of one blob, in this order: queued; start; advance, any number of
// times, with restart if the download begins again; done. A blob that fails has
// no done: the pull fails, or the next credential begins with queued.
const (
	EventQueued  EventKind = "queued"  // it is part of the image
	EventStart   EventKind = "start"   // its download begins, or its verification if the layout has it
	EventAdvance EventKind = "advance" // more bytes have arrived
	EventRestart EventKind = "restart" // the bytes so far were discarded: interrupted, or a wrong digest
	EventDone    EventKind = "done"    // the layout has it
)

// Event reports progress. It contains no secrets.
type Event struct {
	Kind   EventKind
	Digest string
	Config bool  // it is an image's configuration, not a layer
	Size   int64 // bytes, from the manifest
	Bytes  int64 // that have arrived so far
	Reused bool  // with EventDone: the layout already had it
}
