// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package chart

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/regcred/regcred/internal/must"
	"github.com/regcred/regcred/upstream/plugins"
)

// TestCommandLines verifies that regcred accepts each command line in the chart. With --help added,
// regcred prints its help only if it can parse all other arguments.
func TestCommandLines(t *testing.T) {
	regcred := must.Get(plugins.Build(t.TempDir(), "regcred"))(t)
	all := decodeObjects(t, renderChart(t, withValues(values{
		"plugins.images": thirdPartyValues["plugins.images"], "mode": "DryRun", "probe.image": "registry.example/probe:v1", "reserve": []any{"*.example"},
		"anyImage": true, "reapplied": true, "uninstall.allowMissing": true,
	})))
	pod := requireObject[*appsv1.DaemonSet](t, all, "DaemonSet/regcred").Spec.Template.Spec
	job := requireObject[*batchv1.Job](t, all, "Job/regcred-uninstall").Spec.Template.Spec
	run := func(command, args []string) error {
		args = append(slices.Concat(command[1:], args), "--help")
		said, err := exec.CommandContext(t.Context(), regcred, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers, job.Containers) {
		if err := run(c.Command, c.Args); err != nil {
			t.Errorf("%s: %q %q: %v", c.Name, c.Command, c.Args, err)
		}
	}
	ready := pod.Containers[0].ReadinessProbe.ProbeHandler.Exec.Command
	if err := run(ready, nil); err != nil {
		t.Errorf("%q: %v", ready, err)
	}
	if run([]string{"regcred", "agent", "run", "--no-such-flag"}, nil) == nil {
		t.Error("help is given for flags that there are not")
	}
	for _, want := range []corev1.Container{pod.InitContainers[0], pod.Containers[0], job.Containers[0]} {
		if want.Command[0] != "/bin/regcred" {
			t.Errorf("%s runs %s, which is not in the image", want.Name, want.Command[0])
		}
	}
}
