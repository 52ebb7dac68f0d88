// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Command build writes the image of a release from compiled programs, as an OCI layout. The
// layout is a directory, or an archive if the name ends in ".tar".
//
//	go run ./internal/image/build -version v1.2.3 -programs linux/amd64=DIR -o LAYOUT
//	go run ./internal/image/build -version v1.2.3 -revision COMMIT -time SECONDS \
//		-programs linux/amd64=DIR -bom linux/amd64=FILE.cdx.json \
//		-programs linux/arm64=DIR -bom linux/arm64=FILE.cdx.json -o FILE.tar
//
// It prints the digest of the image.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/regcred/regcred/internal/image"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type buildFlags struct {
	release   image.Release
	license   string
	out       string
	platforms []string            // in order of first use
	programs  map[string][]string // directories, by platform
	sboms     map[string]string   // files, by platform
}

func run(args []string, stdout io.Writer) error {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	index, err := o.buildIndex()
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := o.writeIndex(index); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, digest)
	return err
}

func parseFlags(args []string) (*buildFlags, error) {
	o := &buildFlags{programs: map[string][]string{}, sboms: map[string]string{}}
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	f.StringVar(&o.release.Version, "version", "", "release version, such as v1.2.3")
	f.StringVar(&o.release.Revision, "revision", "", "commit that the programs were built from")
	seconds := f.Int64("time", 0, "modification time to set on all files, in seconds since the Unix epoch")
	f.StringVar(&o.license, "license", "LICENSE", "file with the license")
	f.StringVar(&o.out, "o", "", "output directory, or a file ending in .tar")
	platformFlag(f, "programs", "OS/ARCH=DIR", "directory with a platform's programs; can be repeated", func(platform, dir string) {
		if o.programs[platform] == nil {
			o.platforms = append(o.platforms, platform)
		}
		o.programs[platform] = append(o.programs[platform], dir)
	})
	platformFlag(f, "bom", "OS/ARCH=FILE", "software bill of materials for a platform's programs, in CycloneDX JSON", func(platform, file string) { o.sboms[platform] = file })
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.release.Created = time.Unix(*seconds, 0)
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.release.Version == "" || o.out == "" || len(o.platforms) == 0:
		return nil, errors.New("-version, -programs and -o are required")
	}
	for platform := range o.sboms {
		if o.programs[platform] == nil {
			return nil, fmt.Errorf("-bom includes platform %s, but -programs does not", platform)
		}
	}
	return o, nil
}

// platformFlag defines a flag whose argument is a platform and a value, as OS/ARCH=VALUE.
func platformFlag(f *flag.FlagSet, name, form, usage string, set func(platform, value string)) {
	f.Func(name, "`"+form+"`: "+usage, func(s string) error {
		platform, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want " + form)
		}
		set(platform, value)
		return nil
	})
}

func (o *buildFlags) buildIndex() (v1.ImageIndex, error) {
	var parts []image.PlatformImage
	for _, name := range o.platforms {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return nil, err
		}
		var part image.PlatformImage
		if file := o.sboms[name]; file != "" {
			if part.SBOM, err = os.ReadFile(file); err != nil {
				return nil, err
			}
		}
		part.Image, err = image.Build(image.BuildOptions{Programs: o.programs[name], License: o.license, Platform: *platform, Release: o.release})
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return image.BuildIndex(o.release, parts)
}

func (o *buildFlags) writeIndex(index v1.ImageIndex) error {
	if !strings.HasSuffix(o.out, ".tar") {
		return image.WriteLayout(o.out, o.release, index)
	}
	file, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(image.WriteArchive(file, o.release, index), file.Close())
}
