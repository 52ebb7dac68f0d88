// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package pull

// EventKind says what happened to a blob.
type EventKind string

// The events of one blob, in this order: queued; start; advance, any number
// of times, with restart where the download begins anew; done. A blob that
// fails has no done: its pull fails, or the next credential begins with queued.
const (
	EventQueued  EventKind = "queued"  // it is part of the image
	EventStart   EventKind = "start"   // its download begins, or its verification if it is in the layout
	EventAdvance EventKind = "advance" // more bytes have arrived
	EventRestart EventKind = "restart" // what has arrived was thrown away: cut short, or not what the digest says
	EventDone    EventKind = "done"    // it is in the layout
)

// Event reports progress. It holds no secret.
type Event struct {
	Kind   EventKind
	Digest string
	Config bool  // it is an image's configuration, not a layer
	Size   int64 // bytes, from the manifest
	Bytes  int64 // that have arrived so far
	Reused bool  // with EventDone: it was in the layout already
}
