// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package main

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/regcred/regcred/internal/canary"
	"github.com/regcred/regcred/internal/testcri"
	"github.com/regcred/regcred/internal/testregistry"
)

// BenchmarkPrepull compares "regcred prepull" with direct CRI calls that already have the
// credential. Both pull 50 images of one registry into the real containerd, 8 at a time. The time
// of "regcred prepull" includes its process and the plugin.
//
//	go test -run '^$' -bench Prepull -benchtime 10x ./cmd/regcred
//
// It reports the median of both times, and how much longer prepull takes.
func BenchmarkPrepull(b *testing.B) {
	const images, parallel = 50, 8
	containerd := testcri.StartContainerd(b)
	conn, err := grpc.NewClient("unix://"+containerd.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	client := runtimeapi.NewImageServiceClient(conn)
	regcred, err := exec.LookPath("regcred")
	if err != nil {
		b.Fatal(err)
	}

	byHand := func(list []string) time.Duration {
		began := time.Now()
		g, ctx := errgroup.WithContext(b.Context())
		g.SetLimit(parallel)
		for _, image := range list {
			g.Go(func() error {
				spec := &runtimeapi.ImageSpec{Image: image}
				if _, err := client.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec}); err != nil {
					return err
				}
				auth := &runtimeapi.AuthConfig{Username: "ci", Password: canary.PasswordSecret}
				_, err := client.PullImage(ctx, &runtimeapi.PullImageRequest{Image: spec, Auth: auth})
				return err
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	prepull := func(host string, list []string) time.Duration {
		args := append([]string{"prepull", "--runtime-endpoint", containerd.Socket, "--parallel", fmt.Sprint(parallel), "-f", writeImageList(b, list...)}, writeRuntimeConfig(b, "good", host)...)
		began := time.Now()
		if out, err := exec.Command(regcred, args...).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return time.Since(began)
	}

	var hand, ours []time.Duration
	for round := 0; b.Loop(); round++ {
		// Both methods pull images that containerd does not have yet, in alternating order.
		reg, a, z := pushImages(b, images, round)
		if round%2 == 0 {
			hand = append(hand, byHand(a))
			ours = append(ours, prepull(reg.Addr(), z))
		} else {
			ours = append(ours, prepull(reg.Addr(), a))
			hand = append(hand, byHand(z))
		}
		reg.Close()
	}
	h, o := medianDuration(hand), medianDuration(ours)
	b.ReportMetric(0, "ns/op") // the sum of both is meaningless
	b.ReportMetric(h.Seconds()*1e3, "by-hand-ms")
	b.ReportMetric(o.Seconds()*1e3, "prepull-ms")
	b.ReportMetric(100*(o.Seconds()/h.Seconds()-1), "%-longer")
}

// pushImages starts a registry with two sets of images, each image with 1 MiB in two
// layers.
func pushImages(b *testing.B, n, round int) (reg *testregistry.Server, first, second []string) {
	b.Helper()
	reg, err := testregistry.New(testregistry.Options{Auth: testregistry.AuthBearer, Users: map[string]string{"ci": canary.PasswordSecret}})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 2 * n {
		repo := fmt.Sprintf("team/app%d", i)
		if _, err := reg.Push(repo, "v1", testregistry.Image{Seed: int64(round*2*n + i), LayerSize: 512 << 10}); err != nil {
			b.Fatal(err)
		}
		first = append(first, reg.Addr()+"/"+repo+":v1")
	}
	return reg, first[:n:n], first[n:]
}

func medianDuration(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
