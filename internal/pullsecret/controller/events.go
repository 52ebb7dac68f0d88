// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package controller

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	eventInterval = time.Hour
	maxEventText  = 1024 // the API's limit for a note
)

// eventLog records at most one event per Secret and hour, unless the text changes.
type eventLog struct {
	recorder events.EventRecorder

	mu   sync.Mutex
	last map[reconcile.Request]recordedEvent
}

type recordedEvent struct {
	reason, text string
	at           time.Time
}

// warn records an event and reports whether it was new.
func (l *eventLog) warn(req reconcile.Request, regarding client.Object, reason, text string) bool {
	if len(text) > maxEventText {
		text = text[:maxEventText-3] + "..."
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if e, ok := l.last[req]; ok && e.reason == reason && (e.text == text && now.Sub(e.at) < eventInterval || now.Sub(e.at) < time.Minute) {
		return false
	}
	if l.last == nil {
		l.last = map[reconcile.Request]recordedEvent{}
	}
	l.last[req] = recordedEvent{reason, text, now}
	l.recorder.Eventf(regarding, nil, corev1.EventTypeWarning, reason, "UpdatePullSecret", "%s", text)
	return true
}

// clear makes the next failure a new event.
func (l *eventLog) clear(req reconcile.Request) { l.forget(req) }

func (l *eventLog) forget(req reconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, req)
}
