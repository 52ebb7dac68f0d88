// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package generation keeps what regcred put on a node: numbered directories,
// each complete, and a link to the current one. To make another one current is
// one rename, so that whoever reads, or is killed meanwhile, finds the former
// or the next and never a mixture.
//
//	STATE/regcred-credential-provider     the dispatcher, to which the kubelet's bin dir has links
//	STATE/current -> generations/7        the link
//	STATE/generations/7/manifest.json     what it is
//	STATE/generations/7/config/           its CredentialProviderConfig, one file or more
//	STATE/generations/7/bin/              the executables of its providers
//
// The dispatcher stands outside, so that a kubelet starts whatever becomes of
// the generations; each has the one that it came with beside its manifest.
//
//	current, err := generation.Open(generation.DefaultDir)
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

// Dispatcher is the file name of the dispatcher, and the owner's mark: the
// kubelet's entries of regcred are called so, the second and later with "-2"
// and so on behind it.
const Dispatcher = entries.Name

// DefaultMaxStale is how long a kubelet keeps an answer at most.
const DefaultMaxStale = 5 * time.Minute

// schemaVersion is that of [Manifest]. A program reads its own and earlier ones.
const schemaVersion = 1

// Manifest says what a generation is.
type Manifest struct {
	SchemaVersion int       `json:"schemaVersion"`
	Number        int       `json:"number"`
	Previous      int       `json:"previous,omitempty"` // that was current when it was made; 0 if none
	Created       time.Time `json:"created"`
	Version       string    `json:"version"`         // of the regcred that made it
	Source        string    `json:"source"`          // the configuration that it was made of
	Owner         string    `json:"owner,omitempty"` // NAMESPACE/RELEASE of the chart that installed it; "": a person

	MaxStale Duration        `json:"maxStale"`           // how long a kubelet keeps an answer at most
	Entries  []entries.Entry `json:"entries"`            // that the kubelet has for it
	Reserve  []string        `json:"reserve,omitempty"`  // patterns in Entries that no provider has, yet
	AnyImage bool            `json:"anyImage,omitempty"` // Entries have patterns for every image

	Layout Layout     `json:"layout"`
	Host   []HostFile `json:"host,omitempty"` // what it has outside of the state directory, in the order in which that is put there
	Files  []File     `json:"files"`          // what it has in its own directory
}

// HostKind says what a [HostFile] is.
type HostKind string

const (
	HostDir     HostKind = "directory" // made for the files in it
	HostLink    HostKind = "link"      // a symbolic link to Target
	HostFileOwn HostKind = "file"      // a whole file, of Content
	HostEntries HostKind = "entries"   // entries in a file that belongs to somebody else
)

// HostFile is one thing of a generation outside of the state directory.
type HostFile struct {
	Kind    HostKind    `json:"kind"`
	Path    string      `json:"path"` // on the node
	Mode    fs.FileMode `json:"mode,omitempty"`
	Target  string      `json:"target,omitempty"`  // of a link
	Content string      `json:"content,omitempty"` // of a file
	Stage   Stage       `json:"stage"`
}

// Stage orders what is put on a host; it is taken off in the reverse order.
// After each a kubelet that starts finds what works.
type Stage int

const (
	BeforeFlip Stage = iota // what nobody looks at yet: directories, links to the dispatcher
	AfterFlip               // what the others need that are Last
	Last                    // what makes the kubelet look at it: its flags or its configuration
)

// File is a file of a generation.
type File struct {
	Name   string      `json:"name"` // below its directory
	Mode   fs.FileMode `json:"mode"`
	SHA256 string      `json:"sha256"` // of its content, in hexadecimal
}

// Executables lists the providers whose executables a generation has.
func (m *Manifest) Executables() (names []string) {
	for _, f := range m.Files {
		if dir, name := path.Split(f.Name); dir == binDir+"/" {
			names = append(names, name)
		}
	}
	return names
}

// Duration is written as Go writes durations.
type Duration time.Duration

// MarshalText writes d as "5m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// ErrLater means that another release has made a generation, which this one
// cannot read.
var ErrLater = errors.New("use the regcred release that created this generation, or a later release")

// decode reads a manifest, and refuses one that a later program made.
func decode(name string, data []byte) (*Manifest, error) {
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
		return nil, fmt.Errorf("%s has schemaVersion %d, but this regcred release supports only schemaVersion 1 to %d: %w", name, v, schemaVersion, ErrLater)
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	return m, nil
}

// Layout is where on a node the kubelet looks, and looked before. It is decided
// once, by the first generation.
type Layout struct {
	Config string `json:"config"`         // the file that has the entries
	Flag   string `json:"flag"`           // what the kubelet's flag names: that file or its directory
	Own    bool   `json:"own,omitempty"`  // it has nothing else
	Copy   bool   `json:"copy,omitempty"` // it is a copy of Beside with the entries
	Beside string `json:"beside,omitempty"`

	BinDir  string `json:"binDir"`
	LinksOf string `json:"linksOf,omitempty"` // the bin dir whose executables BinDir has links to

	DropIn     string   `json:"dropIn,omitempty"`     // of systemd, with the two flags
	NodeConfig string   `json:"nodeConfig,omitempty"` // of EKS's nodeadm, with the two flags
	Dirs       []string `json:"dirs,omitempty"`       // that were made for all this
}
