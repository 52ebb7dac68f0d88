// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/regcred/regcred/internal/await"
	"github.com/regcred/regcred/internal/excerpt"
	"github.com/regcred/regcred/internal/node"
	"github.com/regcred/regcred/internal/pull"
	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/report"
	"github.com/regcred/regcred/internal/terminal"
)

// prepullFlags holds the flags of "regcred prepull".
type prepullFlags struct {
	*commonPullFlags
	list         string // path of the file with images
	pauseImage   bool
	endpoint     string
	policy       *enumFlag
	allowAllPods bool
}

func (a *app) prepullCmd() *cobra.Command {
	p := &prepullFlags{}
	cmd := &cobra.Command{
		Use:   "prepull {IMAGE... | -f LIST}",
		Short: "Pull images into the node's container runtime before a pod needs them",
		Long: `Pull images into containerd or CRI-O over CRI as the kubelet would: once with
each credential in order until one works, or anonymously if there are no
credentials. Images that are already present are skipped.

LIST is a file with one image per line, or "-" for standard input; "#" starts a
comment. Nothing is pulled if any line is not a valid image.

--pause-image adds the sandbox image that the runtime starts for each pod. The
runtime pulls this image without the kubelet's credentials, so a node cannot
start any pods if the image's registry requires credentials. CRI-O,
containerd 1 and cri-dockerd report the sandbox image in their status. For
containerd 2, "containerd config dump" is run with the running process's
executable and config file.

Only the node's credentials are used, because an image that was not pulled by
the kubelet is available to every pod on the node (KEP-2535). --allow-all-pods
lifts this limit.

The exit code is 0 if every image is present at the end, and 1 otherwise.`,
		Example: `  sudo regcred prepull --as-kubelet registry.example/team/app:1.2
  sudo regcred prepull --as-kubelet -f images.txt
  kubectl get pods -A -o jsonpath='{.items[*].spec.containers[*].image}' |
    tr ' ' '\n' | sudo regcred prepull -f -
  sudo regcred prepull -f images.txt --pause-image --parallel 8 -o json`,
		Args: func(cmd *cobra.Command, args []string) error { return p.checkArgs(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&p.list, "file", "f", "", "`list` of images, one per line; \"-\" is standard input")
	f.BoolVar(&p.pauseImage, "pause-image", false, "also pull the sandbox image that the runtime starts for each pod; with this flag, LIST can be empty")
	f.StringVar(&p.endpoint, "runtime-endpoint", node.AutoEndpoint,
		"container runtime `socket`, unix:///path; \"auto\" uses the kubelet's socket with --as-kubelet, and a well-known socket otherwise")
	policies := []string{string(pull.PullIfNotPresent), string(pull.PullAlways), string(pull.PullNever)}
	p.policy = addEnumFlag(cmd, "pull-policy", "", "pull `policy`, as in a container's imagePullPolicy: "+strings.Join(policies, " | "), policies[0], policies...)
	f.BoolVar(&p.allowAllPods, "allow-all-pods", false,
		"allow pulls with a pod's credentials (--pod, --service-account, --pull-secret, --service-account-token-file): "+
			"the kubelet does not record the pull, so every pod on this node can use the image without credentials (KEP-2535)")
	p.commonPullFlags = addCommonPullFlags(cmd)
	f.IntVar(&p.parallel, "parallel", 4, "`number` of images to pull at the same time")
	registerFlagCompletion(cmd, "runtime-endpoint", []string{node.AutoEndpoint, "unix:///run/containerd/containerd.sock", "unix:///run/crio/crio.sock"})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		images := args
		if p.list != "" {
			var err error
			if images, err = readImages(cmd.Context(), p.list, cmd.InOrStdin()); err != nil {
				return err
			}
			if len(images) == 0 && !p.pauseImage {
				return fmt.Errorf("-f: %s holds no image", p.list)
			}
		}
		return a.prepullImages(cmd.Context(), p, images)
	}
	return cmd
}

func (p *prepullFlags) checkArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0 && p.list == "" && !p.pauseImage:
		return usageError(helpHint(cmd), "%s: IMAGE or -f LIST is missing", cmd.CommandPath())
	case len(args) > 0 && p.list != "":
		return usageError("add the image to LIST, or omit -f", "%s: unexpected argument %q with -f", cmd.CommandPath(), excerpt.RedactAddress(args[0]))
	}
	if err := p.commonPullFlags.check(); err != nil {
		return err
	}
	if p.endpoint != node.AutoEndpoint {
		if _, err := pull.SocketPath(p.endpoint); err != nil {
			return usageError("", "%w", err)
		}
	}
	if given := p.changedPodFlags(); len(given) > 0 && !p.allowAllPods {
		return usageError("pull with the node's credentials, or use --allow-all-pods if every pod on this node is allowed to use the image",
			"%s: an image pulled into the runtime with a pod's credentials could be used by every pod on this node", strings.Join(given, " "))
	}
	return nil
}

// prepullImages pulls each image once into the runtime and prints the results.
func (a *app) prepullImages(ctx context.Context, p *prepullFlags, images []string) error {
	s, err := a.openKeyring(ctx, p.lookupFlags)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := a.checkImages(s, images); err != nil {
		return err
	}
	endpoint, err := a.localNode().RuntimeEndpoint(p.endpoint, s.origin)
	if err != nil {
		return err
	}
	runtime, err := pull.DialRuntime(ctx, endpoint, pull.RuntimeOptions{OnRejected: s.Invalidate})
	if err != nil {
		return cmp.Or(node.UncheckedError(err), err)
	}
	defer runtime.Close()
	if p.endpoint == node.AutoEndpoint {
		a.Note("pulling into %s at %s", runtime, endpoint)
	}
	report := &pullReport{
		Runtime: &runtimeReport{endpoint, runtime.Name, runtime.Version},
		Policy:  p.policy.value,
	}
	if p.pauseImage {
		if images, err = a.addPauseImage(ctx, runtime, report, images); err != nil {
			return err
		}
	}
	all := newPullRun(a, p.commonPullFlags, s)
	all.bars, all.pullInto = a.NewImageProgress(ctx, len(images)), newRuntimePuller(runtime, pull.Policy(p.policy.value))
	err = all.pullAll(ctx, report, images)
	a.warnUnpinnedPauseImage(report)
	return err
}

// addPauseImage adds the runtime's pause image to images, and to the report.
func (a *app) addPauseImage(ctx context.Context, runtime *pull.Runtime, report *pullReport, images []string) ([]string, error) {
	image, from, err := runtime.PauseImage(ctx)
	if err != nil {
		return nil, withHint(err, "pass the pause image as IMAGE instead of using --pause-image")
	}
	a.Note("the pause image is %s, from %s", image, from)
	report.PauseImage = &pauseImageReport{image, from}
	if slices.Contains(images, image) {
		return images, nil
	}
	return append(slices.Clone(images), image), nil
}

// warnUnpinnedPauseImage warns if the pause image is not pinned, because the kubelet may remove
// it.
func (a *app) warnUnpinnedPauseImage(report *pullReport) {
	for _, r := range report.Images {
		if there := r.Outcome == outcomePulled || r.Outcome == outcomePresent; there && !r.Pinned && report.PauseImage != nil && r.Image == report.PauseImage.Image {
			a.Warn("%s does not pin %s: kubelet 1.29 and later removes this image like any other unused image when the disk is full", report.Runtime, r.Image)
		}
	}
}

// newRuntimePuller returns a function that pulls an image into the runtime.
func newRuntimePuller(runtime *pull.Runtime, policy pull.Policy) func(context.Context, lookupFunc, *imageReport) error {
	return func(ctx context.Context, creds lookupFunc, r *imageReport) error {
		got, err := runtime.Pull(ctx, r.Image, policy, creds)
		if err != nil {
			return err
		}
		r.Outcome, r.Ref, r.Size, r.Pinned = outcomePulled, got.ImageRef, got.Size, got.Pinned
		if got.Present {
			r.Outcome = outcomePresent
		}
		r.Credential, r.Failed = report.NewCredential(got.Credential), newTryReports(got.Failed)
		return nil
	}
}

// maxImageListSize limits the size of an image list, in bytes.
const maxImageListSize = 4 << 20

// readImages reads a list of images in order, without duplicates. The list may be empty. If lines
// are invalid, the error lists them.
func readImages(ctx context.Context, name string, stdin io.Reader) ([]string, error) {
	var data []byte
	var err error
	if name == "-" {
		name = "standard input"
		data, err = await.Call(ctx, name, func() ([]byte, error) { return io.ReadAll(io.LimitReader(stdin, maxImageListSize+1)) })
		if err == nil && len(data) > maxImageListSize {
			err = fmt.Errorf("standard input is larger than %s", terminal.FormatBytes(maxImageListSize))
		}
	} else {
		data, err = regularfile.Read(ctx, name, maxImageListSize)
	}
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	var images []string
	var bad []error
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		n++
		image, _, _ := strings.Cut(line, "#")
		if image = strings.TrimSpace(image); image == "" {
			continue
		}
		full, err := pull.FullName(image)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s:%d: %w", name, n, err))
		} else if !seen[full] {
			seen[full] = true
			images = append(images, image)
		}
	}
	const most = 10
	if n := len(bad) - most; n > 0 {
		bad = append(bad[:most:most], fmt.Errorf("%s: invalid images on another %s", name, terminal.FormatCount(n, "line")))
	}
	if len(bad) > 0 {
		return nil, withHint(errors.Join(bad...), "fix the image list; nothing was pulled")
	}
	return images, nil
}
