// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/regcred/regcred/internal/testcloud"
	"github.com/regcred/regcred/upstream/plugins"
)

// networkCondition describes a node's network.
type networkCondition struct {
	name      string
	roundTrip time.Duration // round trip to TLS endpoints
}

var networkConditions = []networkCondition{{fastNetwork, 0}, {slowNetwork, 20 * time.Millisecond}}

const (
	fastNetwork = "Debian's store"
	slowNetwork  = "store and 20 ms"
)

// nodeSubject is a plugin measured on a node, and the programs to compare it with.
type nodeSubject struct {
	label string // label in the rows
	name  string // name of the plugin
	floor string // first argument of the floor program
	image string
	cloud func(*plugins.Node) (*plugins.Cloud, error)
	token string // service account token; "" if the node pulls with its own identity
	only  string // name of the only network condition to measure; "" means all

	// goals maps a network condition and a program to the target time, as a fraction of that
	// program's time. size is the target size, as a fraction of the size at the base commit.
	goals map[string]timeTargets
	size  float64
}

type timeTargets map[string]float64

// nodeSubjects returns the plugins to measure, with their targets.
func nodeSubjects() []nodeSubject {
	ecr := map[string]timeTargets{fastNetwork: {upstreamDir: 0.5, floorDir: 1.3}, slowNetwork: {upstreamDir: 0.8}}
	toFloor := map[string]timeTargets{fastNetwork: {baseCommitDir: 0.6}, slowNetwork: {floorDir: 1.05}}
	return []nodeSubject{
		{label: "ECR, role of the instance", name: plugins.ECR, floor: "ecr-instance", image: ecrImage,
			cloud: (*plugins.Node).AWS, goals: ecr, size: 1.05},
		{label: "ECR, service account", name: plugins.ECR, floor: "ecr-pod", image: ecrImage,
			cloud: (*plugins.Node).AWS, token: signPodToken("sts.amazonaws.com"), goals: ecr, size: 1.05},
		{label: "GCR, service account", name: plugins.GCR, floor: "gcr-pod", image: googleImage,
			cloud: (*plugins.Node).Google, token: signPodToken("pool"), goals: toFloor, size: 1.05},
		{label: "ACR, managed identity", name: plugins.ACR, floor: "acr-instance", image: azureImage,
			cloud: (*plugins.Node).Azure, goals: map[string]timeTargets{fastNetwork: {baseCommitDir: 0.6, floorDir: 1.3}, slowNetwork: {baseCommitDir: 0.76}}, size: 1.05},
		{label: "ACR, managed identity, metadata server at 20 ms too", name: plugins.ACR, floor: "acr-instance", image: azureImage, only: slowNetwork,
			cloud: (*plugins.Node).AzureWithDistantMetadata, goals: map[string]timeTargets{slowNetwork: {baseCommitDir: 0.76}}, size: 1.05},
		{label: "ACR, service account", name: plugins.ACR, floor: "acr-pod", image: azureImage,
			cloud: (*plugins.Node).Azure, token: signPodToken("api://AzureADTokenExchange"),
			goals: map[string]timeTargets{fastNetwork: {baseCommitDir: 0.6, floorDir: 1.3}, slowNetwork: {baseCommitDir: 0.6}}, size: 1.05},
		{label: "token, exchange of one step", name: plugins.Token, floor: "token", image: "registry.example.com/team/app",
			cloud: (*plugins.Node).TokenService, token: signPodToken("sts.example.com"), goals: toFloor, size: 1.15},
	}
}

// signPodToken returns a service account token with this audience.
func signPodToken(audience string) string {
	at := time.Now().Unix()
	return testcloud.AzureJWT(map[string]any{
		"iss": "https://cluster.example.com", "sub": "system:serviceaccount:team:app", "aud": []string{audience},
		"iat": at, "nbf": at, "exp": at + 3600,
		"kubernetes.io": map[string]any{"namespace": "team", "serviceaccount": map[string]any{"name": "app", "uid": "0"}},
	})
}

// measureOn runs the programs alternately on a node and returns a row for each program that the
// regcred plugin is compared with. It also measures memory if the network has no latency.
func (s nodeSubject) measureOn(c networkCondition, dir string, runs int) ([]row, error) {
	node, err := plugins.NewNode(c.roundTrip)
	if err != nil {
		return nil, err
	}
	defer node.Close()
	cloud, err := s.cloud(node)
	if err != nil {
		return nil, err
	}
	defer cloud.Close()
	req := newRequest(cloud, s.image, s.token)
	list := s.pluginPrograms(dir)
	vmhwm := ""
	if c.roundTrip == 0 {
		vmhwm = filepath.Join(dir, "vmhwm")
	}
	for i := range list {
		if _, err := list[i].timeRun(cloud, req); err != nil { // warms up the page cache
			return nil, err
		}
	}
	if err := alternatePrograms(cloud, req, list, runs, vmhwm); err != nil {
		return nil, err
	}
	if strays := node.UnknownHosts(); len(strays) > 0 {
		return nil, fmt.Errorf("asked for %q, which is not configured here", strays)
	}
	return s.rows(c, list), nil
}

// pluginPrograms returns the regcred plugin first, then the programs to compare it with.
func (s nodeSubject) pluginPrograms(dir string) []program {
	list := []program{
		{label: oursDir, path: filepath.Join(dir, oursDir, s.name)},
		{label: floorDir, path: filepath.Join(dir, "floor"), args: []string{s.floor}},
	}
	if hasBaseCommitBuild(dir) {
		list = append(list, program{label: baseCommitDir, path: filepath.Join(dir, baseCommitDir, s.name)})
	}
	if s.name == plugins.ECR {
		list = append(list, program{label: upstreamDir, path: filepath.Join(dir, "upstream-"+plugins.ECR)})
	}
	return list
}

// rows compares the regcred plugin's times with the other programs', and its memory with the base
// commit's.
func (s nodeSubject) rows(c networkCondition, list []program) []row {
	var rows []row
	own := list[0]
	for _, other := range list[1:] {
		mine, theirs := median(own.times), median(other.times)
		r := row{
			What:    s.label + ", " + c.name + ": exec to answer",
			Regcred: formatThreeDigits(mine), Upstream: formatThreeDigits(theirs) + " (" + other.label + ")",
			Ratio: fmt.Sprintf("%.2f×", float64(mine)/float64(theirs)),
		}
		if goal := s.goals[c.name][other.label]; goal > 0 {
			r.Target, r.Met = fmt.Sprintf("≤ %.2f×", goal), float64(mine) <= goal*float64(theirs)
		}
		rows = append(rows, r)
	}
	for _, other := range list[1:] {
		if other.label == baseCommitDir && len(own.memory) > 0 {
			rows = append(rows, s.bytesRow(": most memory", other.label, 1, median(own.memory), median(other.memory)))
		}
	}
	return rows
}

// bytesRow returns a row that compares bytes.
func (s nodeSubject) bytesRow(figure, other string, target float64, mine, theirs int64) row {
	ratio := float64(mine) / float64(theirs)
	return row{
		What: s.label + figure, Regcred: formatMegabytes(mine), Upstream: formatMegabytes(theirs) + " (" + other + ")",
		Ratio: fmt.Sprintf("%.2f×", ratio), Target: fmt.Sprintf("≤ %.2f×", target), Met: ratio <= target,
	}
}
