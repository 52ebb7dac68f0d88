// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package generation stores what regcred installed on a node: numbered, complete
// directories and a link to the current one. Activating a generation renames one link, so
// that readers and interrupted changes find either generation and never a mixture.
//
//	STATE/regcred-credential-provider     the dispatcher, to which the kubelet's bin dir has links
//	STATE/current -> generations/7        the link
//	STATE/generations/7/manifest.json     what it is
//	STATE/generations/7/config/           its CredentialProviderConfig, one file or more
//	STATE/generations/7/bin/              the executables of its providers
//
// The dispatcher is outside the generations, so that a kubelet starts whatever happens to
// them. Each generation has a copy of its dispatcher next to its manifest.
//
//	current, err := generation.OpenCurrent(generation.DefaultDir)
//	if err == nil {
//		defer current.Close()
//		command := current.Config.Providers[0].Command(current.BinDir())
//	}
package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/regcred/regcred/internal/entries"
)

// DefaultDir is the default state directory on a node.
const DefaultDir = "/var/lib/regcred"

// DispatcherName is the file name of the dispatcher. regcred's entries in the kubelet's
// configuration have this name. The second and later ones have a suffix: "-2" and so
// on.
const DispatcherName = entries.Name

// DefaultMaxStaleness is the default limit for how long a kubelet caches a response.
const DefaultMaxStaleness = 5 * time.Minute

// schemaVersion is the version of [Manifest]. A program reads its own version and
// earlier versions.
const schemaVersion = 1

// Manifest describes a generation.
type Manifest struct {
	SchemaVersion int       `json:"schemaVersion"`
	Number        int       `json:"number"`
	Previous      int       `json:"previous,omitempty"` // the generation that was current when this one was created; 0 if none
	Created       time.Time `json:"created"`
	Version       string    `json:"version"`         // version of the regcred that created it
	Source        string    `json:"source"`          // path of the configuration from which it was created
	Owner         string    `json:"owner,omitempty"` // NAMESPACE/RELEASE of the chart that installed it; "" if the CLI did

	MaxStale Duration        `json:"maxStale"`           // maximum time that a kubelet may cache a response
	Entries  []entries.Entry `json:"entries"`            // entries in the kubelet's configuration for this generation
	Reserve  []string        `json:"reserve,omitempty"`  // patterns in Entries for which there is no provider yet
	AnyImage bool            `json:"anyImage,omitempty"` // Entries contain patterns for every image

	Layout KubeletLayout `json:"layout"`
	Host   []HostFile    `json:"host,omitempty"` // files outside the state directory, in installation order
	Files  []File        `json:"files"`          // files in the generation's directory
}

// HostKind is the kind of a [HostFile].
type HostKind string

const (
	HostKindDir     HostKind = "directory" // a directory created for the files in it
	HostKindLink    HostKind = "link"      // a symbolic link to Target
	HostKindFile    HostKind = "file"      // a file with Content
	HostKindEntries HostKind = "entries"   // entries in a file that regcred does not own
)

// HostFile is a part of a generation that is outside the state directory.
type HostFile struct {
	Kind    HostKind     `json:"kind"`
	Path    string       `json:"path"` // on the node
	Mode    fs.FileMode  `json:"mode,omitempty"`
	Target  string       `json:"target,omitempty"`  // of a link
	Content string       `json:"content,omitempty"` // of a file
	Stage   InstallStage `json:"stage"`
}

// InstallStage orders the installation of host files. They are removed in reverse
// order. A kubelet that starts after any stage finds a working state.
type InstallStage int

const (
	BeforeActivation InstallStage = iota // not in use yet: directories, links to the dispatcher
	AfterActivation                      // files that are required by StageLast
	StageLast                            // activates the generation: the kubelet's flags or configuration
)

// File is a file of a generation.
type File struct {
	Name   string      `json:"name"` // path below the generation's directory
	Mode   fs.FileMode `json:"mode"`
	SHA256 string      `json:"sha256"` // hash of the content, in hexadecimal
}

// Executables returns the providers whose executables are part of the generation.
func (m *Manifest) Executables() (names []string) {
	for _, f := range m.Files {
		if dir, name := path.Split(f.Name); dir == binDir+"/" {
			names = append(names, name)
		}
	}
	return names
}

// Duration is a duration that is encoded as a Go duration string.
type Duration time.Duration

// MarshalText returns d as a string such as "5m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses a Go duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// ErrNewerVersion is returned for a generation of a later release, which this release
// cannot read.
var ErrNewerVersion = errors.New("use the regcred release that created this generation, or a later release")

// decodeManifest parses a manifest. It rejects manifests of later releases.
func decodeManifest(name string, data []byte) (*Manifest, error) {
	var version struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	switch v := version.SchemaVersion; {
	case v < 1:
		return nil, fmt.Errorf("%s is damaged: schemaVersion is missing", name)
	case v > schemaVersion:
		return nil, fmt.Errorf("%s has schemaVersion %d, but this regcred release supports only schemaVersion 1 to %d: %w", name, v, schemaVersion, ErrNewerVersion)
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	return m, nil
}

// ConfigKind is the kind of the configuration file with the entries.
type ConfigKind string

const (
	ConfigKindShared ConfigKind = "shared" // the node's own file, which also contains other entries
	ConfigKindOwn    ConfigKind = "own"    // a file that contains only regcred's entries
	ConfigKindLinked ConfigKind = "linked" // as ConfigKindOwn, next to a symlink to Original
	ConfigKindCopied ConfigKind = "copied" // a copy of Original with regcred's entries added
)

// KubeletLayout describes the kubelet's paths on a node, before and after the
// installation. It is determined by the first generation.
type KubeletLayout struct {
	Config   string     `json:"config"` // the file that contains the entries
	Kind     ConfigKind `json:"kind"`
	Original string     `json:"original,omitempty"` // the file that Config links to or that it copies
	Flag     string     `json:"flag"`               // the path in the kubelet's flag: Config or its directory

	BinDir  string `json:"binDir"`
	LinksOf string `json:"linksOf,omitempty"` // the bin dir whose executables BinDir links to

	DropIn     string   `json:"dropIn,omitempty"`     // systemd drop-in that sets both flags
	NodeConfig string   `json:"nodeConfig,omitempty"` // configuration of EKS's nodeadm that sets both flags
	Dirs       []string `json:"dirs,omitempty"`       // directories created for these paths
}
