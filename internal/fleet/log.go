// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/agent"
)

// reads are how much of a log is read until there is a status in it. A kubelet takes
// the last lines first, and of these the first bytes: so the bytes are plenty. What
// was said on standard error stands between the statuses. A kubelet reads the file
// that is written to alone: after a rotation there may be none for a while.
var reads = []struct{ lines, bytes int64 }{{20, 256 << 10}, {2000, 3 << 20}}

// maxPhase is the length of a word: of a phase that only a later version knows.
const maxPhase = 32

// status is what a pod last said; nil if its log has nothing of it.
func (c *Client) status(ctx context.Context, pod *corev1.Pod) (*agent.Status, error) {
	var last *agent.Status
	for _, read := range reads {
		log, err := c.do(ctx, &call{
			verb: "get", resource: "pods/log", namespace: pod.Namespace, name: pod.Name,
			query: url.Values{
				"container": {container}, "tailLines": {strconv.FormatInt(read.lines, 10)}, "limitBytes": {strconv.FormatInt(read.bytes, 10)},
			},
		})
		if err != nil {
			return nil, err
		}
		cut := int64(len(log)) >= read.bytes
		if last = lastStatus(log, nodeOf(pod)); last != nil && !cut {
			return last, nil
		}
		if !cut && int64(bytes.Count(log, []byte("\n"))) < read.lines { // there is no more
			return last, nil
		}
	}
	return last, nil
}

// lastStatus is the last line of a log that is a status of a node, or nil.
func lastStatus(log []byte, node string) *agent.Status {
	for _, line := range slices.Backward(bytes.Split(log, []byte("\n"))) {
		line = bytes.TrimSpace(line)
		if !bytes.HasPrefix(line, []byte("{")) || !bytes.HasSuffix(line, []byte("}")) {
			continue
		}
		var s agent.Status
		if json.Unmarshal(line, &s) == nil && s.SchemaVersion > 0 && s.Phase != "" && len(s.Phase) <= maxPhase && s.Node == node && !s.Time.IsZero() {
			return &s
		}
	}
	return nil
}

// nodeOf is the node that a pod is on, or is meant for: one of a DaemonSet is so by
// its affinity before it is scheduled.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return pod.Spec.NodeName
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == "metadata.name" && f.Operator == corev1.NodeSelectorOpIn && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}
