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

// nextKubelet is the kubelet that this node's service starts: one that ends at its
// start leaves no process, and k3s has it inside its own. None is the error if there is no such service.
func (n Node) nextKubelet(none error) (*kubelet, error) {
	r := newReading(context.Background(), n)
	found := r.find()
	if found.kind == NoKubelet || found.service == "" {
		return nil, none
	}
	k := &kubelet{unit: found.service, root: cmp.Or(n.Root, "/"), flags: r.serviceFlags(found), files: r.read(), dir: "/", environ: []string{servicePath}}
	if len(r.unread) > 0 {
		return nil, withHint(fmt.Errorf("--as-kubelet: no kubelet is running, and this user cannot read %s, which %s uses", strings.Join(r.unread, ", "), found.service), "run it as root (sudo)")
	}
	for _, name := range slices.Sorted(maps.Keys(found.vars)) {
		k.environ = append(k.environ, name+"="+found.vars[name].value)
	}
	return k, n.insideOf(k, r.running(k.unit, found.processes()...))
}

// insideOf takes environment and directory of the process that has a kubelet inside,
// as k3s does. Nil is none.
func (n Node) insideOf(k *kubelet, run *Running) error {
	if run == nil {
		return nil
	}
	p, err := n.openProcess(run.PID)
	if err != nil {
		return err
	}
	defer p.Close()
	inside, err := p.kubelet()
	if err == nil {
		err = p.checkOwner(os.Geteuid())
	}
	if err != nil {
		return err
	}
	k.pid, k.environ, k.dir = run.PID, inside.environ, inside.dir
	return nil
}

// servicePath is what systemd gives services that have none (systemd.exec(5)).
const servicePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
