// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// nextKubelet returns the kubelet that this node's service starts: a failing kubelet
// has no process, and k3s runs the kubelet in its own. Without a service it fails with
// the error none.
func (r *Reading) nextKubelet(ctx context.Context, none error) (*kubelet, error) {
	rd := r.reader(ctx)
	s := r.kubeletService(rd)
	if s.kind == NoKubelet || s.name == "" {
		return nil, none
	}
	// systemd.exec(5) has the default PATH.
	k := &kubelet{unit: s.name, root: cmp.Or(r.Root, "/"), flags: rd.serviceFlags(s), dir: "/", environ: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	if len(rd.unread) > 0 {
		return nil, withHint(fmt.Errorf("--as-kubelet: no kubelet is running, and this user cannot read %s, which %s uses", strings.Join(rd.unread, ", "), s.name), "run it as root (sudo)")
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	k.files = rd.usedFiles()
	for _, name := range slices.Sorted(maps.Keys(s.vars)) {
		k.environ = append(k.environ, name+"="+s.vars[name].value)
	}
	run := rd.running(s)
	if run == nil {
		return k, nil
	}
	// A running program such as k3s includes the kubelet.
	p, err := r.openProcess(run.PID)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	outer, err := p.kubelet()
	if err == nil {
		err = p.checkOwner(os.Geteuid())
	}
	if err != nil {
		return nil, err
	}
	k.pid, k.environ, k.dir = run.PID, outer.environ, outer.dir
	return k, nil
}
