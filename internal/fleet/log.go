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
	"github.com/regcred/regcred/internal/apiserver"
)

// logReadSizes lists how much of a log to read until a status is found. Lines of standard
// error may follow the last status. The kubelet first selects the last lines, and then
// returns the first bytes of these lines, so the byte limit is generous. It reads only the
// current log file, which may contain no status after a rotation.
var logReadSizes = []struct{ lines, bytes int64 }{{20, 256 << 10}, {2000, 3 << 20}}

// maxPhaseLength limits the length of a phase. A later version may report phases that this
// version does not know.
const maxPhaseLength = 32

// readStatus returns the last status in the log of a pod, or nil.
func (c *Client) readStatus(ctx context.Context, pod *corev1.Pod) (*agent.Status, error) {
	var last *agent.Status
	for _, read := range logReadSizes {
		log, err := c.doCall(ctx, &apiserver.Call{
			Verb: "get", Resource: "pods/log", Namespace: pod.Namespace, Name: pod.Name,
			Query: url.Values{
				"container": {agentContainerName}, "tailLines": {strconv.FormatInt(read.lines, 10)}, "limitBytes": {strconv.FormatInt(read.bytes, 10)},
			},
		})
		if err != nil {
			return nil, err
		}
		cut := int64(len(log)) >= read.bytes
		if last = lastStatus(log, podNodeName(pod)); last != nil && !cut {
			return last, nil
		}
		if !cut && int64(bytes.Count(log, []byte("\n"))) < read.lines { // the whole log was read
			return last, nil
		}
	}
	return last, nil
}

// lastStatus returns the last status in a log, or nil.
func lastStatus(log []byte, node string) *agent.Status {
	for _, line := range slices.Backward(bytes.Split(log, []byte("\n"))) {
		line = bytes.TrimSpace(line)
		if !bytes.HasPrefix(line, []byte("{")) || !bytes.HasSuffix(line, []byte("}")) {
			continue
		}
		var s agent.Status
		if json.Unmarshal(line, &s) == nil && s.SchemaVersion > 0 && s.Phase != "" && len(s.Phase) <= maxPhaseLength && s.Node == node && !s.Time.IsZero() {
			return &s
		}
	}
	return nil
}

// podNodeName returns the name of a pod's node. For a DaemonSet's pod that is not scheduled
// yet, it reads the name from the pod's affinity.
func podNodeName(pod *corev1.Pod) string {
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
