// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/regcred/regcred/internal/apiserver"
	"github.com/regcred/regcred/internal/remote"
)

const (
	listPage     = 100      // service accounts in one answer
	maxList      = 64 << 20 // bytes of it: annotations have up to 256 KiB
	minWatchLife = 5 * time.Minute
	maxWatchWait = 30 * time.Second // between two attempts
)

// watched is all service accounts of the cluster, while a watch keeps them up
// to date.
type watched struct {
	mu       sync.RWMutex
	accounts map[accountKey]*account
	synced   bool
	lost     time.Time // when it was last true, if it is not in sync
}

// get returns a service account, and when it was last known to be true, which
// is less than maxStale ago.
func (w *watched) get(key accountKey, now time.Time, maxStale time.Duration) (a *account, read time.Time) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	switch {
	case w.synced:
		return w.accounts[key], now
	case now.Sub(w.lost) < maxStale:
		return w.accounts[key], w.lost
	}
	return nil, time.Time{}
}

func (w *watched) drop(key accountKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.accounts, key)
}

func (w *watched) set(a *account) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accounts[accountKey{a.Namespace, a.Name}] = a
}

// replace takes over a list that is as new as at.
func (w *watched) replace(accounts map[accountKey]*account, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.accounts, w.lost = accounts, at
}

// setSynced says that what is known is up to date, or is not any more.
func (w *watched) setSynced(synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced && !synced {
		w.lost = time.Now()
	}
	w.synced = synced
}

// Watch keeps all service accounts of the cluster up to date until ctx ends,
// so that GetServiceAccount need not call the API server for those that it
// finds; then it returns nil. It returns an [*Error] at once where the identity
// may not list and watch them, as a node's may not; GetServiceAccount then goes
// on as without it. What else goes wrong is tried again, with a growing pause.
// A second Watch of the same Client is an error.
func (c *Client) Watch(ctx context.Context) error {
	if !c.watching.CompareAndSwap(false, true) {
		return errors.New("watch serviceaccounts: already watching")
	}
	defer c.watching.Store(false)
	defer c.watched.setSynced(false)
	version, wait := "", time.Duration(0)
	for {
		began := time.Now()
		err := c.follow(ctx, &version)
		c.watched.setSynced(false)
		var e *Error
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &e) && (e.Code == http.StatusForbidden || e.Code == http.StatusUnauthorized):
			return err
		case time.Since(began) > maxWatchWait, e != nil && e.Code == http.StatusGone: // to list is all that helps
			wait = 0
		}
		c.opts.Logger.Debug("the watch of service accounts ended", "err", err)
		wait = min(max(2*wait, time.Second), maxWatchWait)
		if !remote.Pause(ctx, wait/2+rand.N(wait/2)) {
			return nil
		}
	}
}

// follow lists, unless version says up to where everything is known, and then
// watches until the API server ends it.
func (c *Client) follow(ctx context.Context, version *string) error {
	if *version == "" {
		start := time.Now()
		accounts, v, err := c.list(ctx)
		if err != nil {
			return err
		}
		c.watched.replace(accounts, start)
		*version = v
	}
	err := c.watch(ctx, version)
	var e *Error
	if errors.As(err, &e) && e.Code == http.StatusGone {
		*version = "" // what happened in between is not known any more: list again
	}
	return err
}

// list reads all service accounts, page by page, and the version at which
// they were like this.
func (c *Client) list(ctx context.Context) (accounts map[accountKey]*account, version string, err error) {
	q := &call{
		verb: "list", resource: "serviceaccounts",
		kind: "ServiceAccountList", path: []string{"api", "v1", "serviceaccounts"},
		query: url.Values{"limit": {strconv.Itoa(listPage)}}, most: maxList,
	}
	accounts = map[accountKey]*account{}
	for {
		var page corev1.ServiceAccountList
		if err := c.do(ctx, q, &page); err != nil {
			return nil, "", err
		}
		for i := range page.Items {
			sa := &page.Items[i]
			accounts[accountKey{sa.Namespace, sa.Name}] = newAccount(sa, time.Time{})
		}
		if page.Continue == "" {
			return accounts, page.ResourceVersion, nil
		}
		q.query.Set("continue", page.Continue)
	}
}

// watch takes in what changes after version, which it moves on. It returns nil
// when the API server ends the watch, as it does after some minutes.
func (c *Client) watch(ctx context.Context, version *string) error {
	life := minWatchLife + rand.N(minWatchLife) // not all clients at once, as client-go does it
	ctx, cancel := context.WithTimeoutCause(ctx, life+c.opts.Timeout, apiserver.TimeoutError(life+c.opts.Timeout))
	defer cancel()
	q := &call{
		verb: "watch", resource: "serviceaccounts", path: []string{"api", "v1", "serviceaccounts"},
		query: url.Values{
			"watch": {"true"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {*version},
			"timeoutSeconds": {strconv.Itoa(int(life / time.Second))},
		},
	}
	begin := time.AfterFunc(c.opts.Timeout, cancel)
	request, err := q.http()
	if err != nil {
		return c.fail(q, err)
	}
	resp, failure := c.Send(ctx, request)
	if failure != nil {
		return c.failed(q, failure)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, apiserver.MaxObject)) // what there is of it
		return c.failed(q, apiserver.Refused(resp, body))
	}
	begin.Stop()
	c.watched.setSynced(true)
	return c.readEvents(ctx, q, resp.Body, version)
}

// meter is a reader that ends with an error when an allowance is used up.
type meter struct {
	r    io.Reader
	left int
}

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, errTooLong
	}
	n, err := m.r.Read(p[:min(len(p), m.left)])
	m.left -= n
	return n, err
}

var errTooLong = errors.New("an event is too long")

// watchEvent is one line of a watch.
type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// readEvents takes in events until there are no more.
func (c *Client) readEvents(ctx context.Context, q *call, body io.Reader, version *string) error {
	m := &meter{r: body}
	dec := json.NewDecoder(m)
	for {
		m.left = apiserver.MaxObject
		var e watchEvent
		err := dec.Decode(&e)
		var syntax *json.SyntaxError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &syntax):
			return c.fail(q, errors.New("an event is not valid JSON"))
		case err == errTooLong:
			return c.fail(q, err)
		case err != nil:
			return c.failed(q, apiserver.NoAnswer(ctx, err))
		}
		if err := c.take(q, e, version); err != nil {
			return err
		}
	}
}

// take takes in one event.
func (c *Client) take(q *call, e watchEvent, version *string) error {
	if e.Type == "ERROR" {
		var status metav1.Status
		_ = json.Unmarshal(e.Object, &status) // if it is none, it is an error without a code
		failed := c.fail(q, nil)
		failed.Code, failed.Reason, failed.Message = int(status.Code), string(status.Reason), apiserver.Clean(status.Message)
		return failed
	}
	var sa corev1.ServiceAccount
	if json.Unmarshal(e.Object, &sa) != nil {
		return c.fail(q, errors.New("an event is not about a service account"))
	}
	switch e.Type {
	case "ADDED", "MODIFIED":
		c.watched.set(newAccount(&sa, time.Time{}))
	case "DELETED":
		c.watched.drop(accountKey{sa.Namespace, sa.Name})
	}
	*version = sa.ResourceVersion
	return nil
}
