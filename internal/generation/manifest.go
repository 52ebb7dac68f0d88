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

// DefaultDir is the state directory of a node.
const DefaultDir = "/var/lib/regcred"

// DispatcherName is the file name of the dispatcher. The kubelet's entries of regcred have this
// name, the second and later ones with a suffix "-2" and so on.
const DispatcherName = entries.Name

// DefaultMaxStale bounds how long a kubelet caches a response.
const DefaultMaxStale = 5 * time.Minute

// schemaVersion is the version of [Manifest]. A program reads its own version
// and earlier ones.
const schemaVersion = 1

// Manifest describes a generation.
type Manifest struct {
	SchemaVersion int       `json:"schemaVersion"`
	Number        int       `json:"number"`
	Previous      int       `json:"previous,omitempty"` // the current generation when it was created; 0 if none
	Created       time.Time `json:"created"`
	Version       string    `json:"version"`         // of the regcred that created it
	Source        string    `json:"source"`          // the configuration that it was created from
	Owner         string    `json:"owner,omitempty"` // NAMESPACE/RELEASE of the chart that installed it; "" means the CLI

	MaxStale Duration        `json:"maxStale"`           // limit of how long a kubelet caches a response
	Entries  []entries.Entry `json:"entries"`            // the kubelet's entries for it
	Reserve  []string        `json:"reserve,omitempty"`  // patterns in Entries that no provider has yet
	AnyImage bool            `json:"anyImage,omitempty"` // Entries have patterns for every image

	Layout KubeletLayout `json:"layout"`
	Host   []HostFile    `json:"host,omitempty"` // files outside the state directory, in the order of their installation
	Files  []File        `json:"files"`          // files in the generation's directory
}

// HostKind is the kind of a [HostFile].
type HostKind string

const (
	HostKindDir     HostKind = "directory" // created for files in it
	HostKindLink    HostKind = "link"      // a symbolic link to Target
	HostKindFile    HostKind = "file"      // a file with Content
	HostKindEntries HostKind = "entries"   // entries in a file that regcred does not own
)

// HostFile is a part of a generation outside the state directory.
type HostFile struct {
	Kind    HostKind     `json:"kind"`
	Path    string       `json:"path"` // on the node
	Mode    fs.FileMode  `json:"mode,omitempty"`
	Target  string       `json:"target,omitempty"`  // of a link
	Content string       `json:"content,omitempty"` // of a file
	Stage   InstallStage `json:"stage"`
}

// InstallStage orders the installation of host files; they are removed in reverse
// order. A kubelet that starts after any stage finds a working state.
type InstallStage int

const (
	BeforeActivation InstallStage = iota // not used yet: directories, links to the dispatcher
	AfterActivation                      // files that the Last stage requires
	StageLast                            // activates it: the kubelet's flags or configuration
)

// File is a file of a generation.
type File struct {
	Name   string      `json:"name"` // below the generation's directory
	Mode   fs.FileMode `json:"mode"`
	SHA256 string      `json:"sha256"` // of its content, in hexadecimal
}

// Executables returns the providers whose executables a generation contains.
func (m *Manifest) Executables() (names []string) {
	for _, f := range m.Files {
		if dir, name := path.Split(f.Name); dir == binDir+"/" {
			names = append(names, name)
		}
	}
	return names
}

// Duration is encoded as a Go duration.
type Duration time.Duration

// MarshalText returns d as "5m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses a Go duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// ErrNewerVersion reports a generation of a later release, which this one cannot read.
var ErrNewerVersion = errors.New("use the regcred release that created this generation, or a later release")

// decodeManifest parses a manifest. It rejects one of a later release.
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
	ConfigKindShared ConfigKind = "shared" // the node's own file, which has other entries too
	ConfigKindOwn    ConfigKind = "own"    // a file with regcred's entries only
	ConfigKindLinked ConfigKind = "linked" // as ConfigKindOwn, next to a symlink to Original
	ConfigKindCopied ConfigKind = "copied" // a copy of Original with the entries
)

// KubeletLayout describes the kubelet's places on a node, before and after the
// installation. The first generation decides it.
type KubeletLayout struct {
	Config   string     `json:"config"` // the file that has the entries
	Kind     ConfigKind `json:"kind"`
	Original string     `json:"original,omitempty"` // the file that Config links to or copies
	Flag     string     `json:"flag"`               // the path in the kubelet's flag: Config or its directory

	BinDir  string `json:"binDir"`
	LinksOf string `json:"linksOf,omitempty"` // the bin dir to whose executables BinDir has links

	DropIn     string   `json:"dropIn,omitempty"`     // of systemd, with both flags
	NodeConfig string   `json:"nodeConfig,omitempty"` // of EKS's nodeadm, with both flags
	Dirs       []string `json:"dirs,omitempty"`       // directories created for this
}
