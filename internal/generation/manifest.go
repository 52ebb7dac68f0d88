// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

// Package generation stores what regcred installs on a node. Each install creates a numbered
// directory, a generation, that contains all files. A symlink refers to the current generation.
// Activating a generation replaces this symlink with one rename, so that readers find either
// the old or the new generation, even if a change is interrupted.
//
//	STATE/regcred-credential-provider     the dispatcher, to which the kubelet's bin dir has links
//	STATE/current -> generations/7        the symlink to the current generation
//	STATE/generations/7/manifest.json     description of the generation
//	STATE/generations/7/config/           CredentialProviderConfig files, one or more
//	STATE/generations/7/bin/              executables of the providers
//
// The dispatcher is outside the generations, so that the kubelet can start even if a generation
// is damaged. Each generation also contains a copy of its dispatcher.
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
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/regcred/regcred/internal/entries"
)

// DefaultDir is the default state directory on a node.
const DefaultDir = "/var/lib/regcred"

// DispatcherName is the file name of the dispatcher. regcred's first entry in the kubelet's
// configuration has this name. The names of further entries have a suffix: "-2", "-3" and so
// on.
const DispatcherName = entries.DispatcherName

// DefaultMaxStaleness is the default maximum time for which a kubelet may cache a response.
const DefaultMaxStaleness = 5 * time.Minute

// schemaVersion is the version of the [Manifest] format. regcred can also read manifests with
// earlier versions.
const schemaVersion = 1

// Manifest describes a generation.
type Manifest struct {
	SchemaVersion int       `json:"schemaVersion"`
	Number        int       `json:"number"`
	Previous      int       `json:"previous,omitempty"` // number of the generation that was current before; 0 if none
	Created       time.Time `json:"created"`
	Version       string    `json:"version"`         // version of regcred that created the generation
	Source        string    `json:"source"`          // path of the installed configuration, or "release NAMESPACE/RELEASE"
	Owner         string    `json:"owner,omitempty"` // Helm release NAMESPACE/RELEASE that installed it; "" if the CLI did

	MaxStale Duration        `json:"maxStale"`           // maximum time for which a kubelet may cache a response
	Entries  []entries.Entry `json:"entries"`            // regcred's provider entries in the kubelet's configuration
	Reserve  []string        `json:"reserve,omitempty"`  // image patterns in Entries for future providers
	AnyImage bool            `json:"anyImage,omitempty"` // Entries match every image

	Layout KubeletLayout `json:"layout"`
	Host   []HostFile    `json:"host,omitempty"` // files outside the generation's directory, in installation order
	Files  []File        `json:"files"`          // files in the generation's directory
}

// HostKind identifies the kind of a [HostFile].
type HostKind string

const (
	HostKindDir     HostKind = "directory" // a directory that contains other host files
	HostKindLink    HostKind = "link"      // a symlink to Target
	HostKindFile    HostKind = "file"      // a regular file with Content
	HostKindEntries HostKind = "entries"   // regcred's provider entries in a file of the node
)

// HostFile describes a file, symlink or directory that a generation needs outside its own
// directory.
type HostFile struct {
	Kind    HostKind     `json:"kind"`
	Path    string       `json:"path"` // path on the node
	Mode    fs.FileMode  `json:"mode,omitempty"`
	Target  string       `json:"target,omitempty"`  // target of a symlink
	Content string       `json:"content,omitempty"` // content of a file
	Stage   InstallStage `json:"stage"`
}

// hostFileJSON is a [HostFile] whose content may be any bytes. A JSON string would change bytes
// that are not UTF-8.
type hostFileJSON struct {
	plainHostFile
	Bytes []byte `json:"contentBase64,omitempty"`
}

type plainHostFile HostFile

// MarshalJSON encodes content that is not UTF-8 as Base64.
func (h HostFile) MarshalJSON() ([]byte, error) {
	v := hostFileJSON{plainHostFile: plainHostFile(h)}
	if !utf8.ValidString(h.Content) {
		v.Content, v.Bytes = "", []byte(h.Content)
	}
	return json.Marshal(v)
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (h *HostFile) UnmarshalJSON(data []byte) error {
	var v hostFileJSON
	err := json.Unmarshal(data, &v)
	if *h = HostFile(v.plainHostFile); v.Bytes != nil {
		h.Content = string(v.Bytes)
	}
	return err
}

// checkNames returns an error if a path in the manifest is not UTF-8, so that JSON cannot contain
// it.
func (m *Manifest) checkNames() error {
	l := m.Layout
	names := append([]string{l.Config, l.Original, l.ConfigFlag, l.BinDir, l.OriginalBinDir, l.DropIn, l.NodeConfig, m.Source}, l.Dirs...)
	for _, h := range m.Host {
		names = append(names, h.Path, h.Target)
	}
	for _, f := range m.Files {
		names = append(names, f.Name)
	}
	for _, name := range names {
		if !utf8.ValidString(name) {
			return fmt.Errorf("the path %q is not UTF-8: rename it", name)
		}
	}
	return nil
}

// InstallStage determines the order in which host files are installed. They are removed in
// reverse order. A kubelet that starts after any stage works.
type InstallStage int

const (
	StageBeforeActivation InstallStage = iota // files that the kubelet does not use yet: directories and links to the dispatcher
	StageAfterActivation                      // files on which the files of StageLast depend
	StageLast                                 // the kubelet's flags or configuration, which make the kubelet use the generation
)

// File describes a file in a generation's directory.
type File struct {
	Name   string      `json:"name"` // path relative to the generation's directory
	Mode   fs.FileMode `json:"mode"`
	SHA256 string      `json:"sha256"` // SHA-256 hash of the content in hexadecimal
}

// Executables returns the names of the executables in the generation, which are the names of
// its providers.
func (m *Manifest) Executables() (names []string) {
	for _, f := range m.Files {
		if dir, name := path.Split(f.Name); dir == binDir+"/" {
			names = append(names, name)
		}
	}
	return names
}

// Duration is a duration that is encoded in JSON as a string such as "5m0s".
type Duration time.Duration

// MarshalText returns d as a string such as "5m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses a Go duration string.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// ErrNewerVersion is the error for a generation that a newer release of regcred has created and
// that this release cannot read.
var ErrNewerVersion = errors.New("use the regcred release that created this generation, or a later release")

// decodeManifest parses the manifest of a generation. It rejects manifests of newer releases.
func decodeManifest(name string, data []byte, number int) (*Manifest, error) {
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
	err := json.Unmarshal(data, m)
	if err == nil {
		err = m.checkManifest(number)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	return m, nil
}

// checkManifest returns an error if a manifest cannot be the one of generation number, or if it names
// files where regcred has none.
func (m *Manifest) checkManifest(number int) error {
	switch {
	case m.Number != number:
		return fmt.Errorf("it is the manifest of generation %d", m.Number)
	case m.Previous < 0 || m.Previous >= number:
		return fmt.Errorf("it has the previous generation %d", m.Previous)
	}
	for _, h := range m.Host {
		if !path.IsAbs(h.Path) || slices.Contains(strings.Split(h.Path, "/"), "..") {
			return fmt.Errorf("the host file %q has no absolute path", h.Path)
		}
	}
	for _, f := range m.Files {
		if path.IsAbs(f.Name) || slices.Contains(strings.Split(f.Name, "/"), "..") {
			return fmt.Errorf("the file %q is not in the generation", f.Name)
		}
	}
	return nil
}

// ConfigKind identifies how regcred's entries are added to the kubelet's configuration.
type ConfigKind string

const (
	ConfigKindShared ConfigKind = "shared" // the entries are in the node's own file, next to other entries
	ConfigKindOwn    ConfigKind = "own"    // the entries are in a separate file
	ConfigKindLinked ConfigKind = "linked" // the entries are in a separate file, in a directory with a symlink to Original
	ConfigKindCopied ConfigKind = "copied" // the entries are in a copy of Original
)

// KubeletLayout describes the kubelet's paths on a node. The first generation determines the
// layout.
type KubeletLayout struct {
	Config     string     `json:"config"` // path of the file that contains the entries
	Kind       ConfigKind `json:"kind"`
	Original   string     `json:"original,omitempty"` // path of the node's file that is linked or copied
	ConfigFlag string     `json:"flag"`               // the value of the kubelet's flag: Config or its directory

	BinDir         string `json:"binDir"`
	OriginalBinDir string `json:"linksOf,omitempty"` // the node's bin dir; BinDir contains links to its executables

	DropIn     string   `json:"dropIn,omitempty"`     // path of the systemd drop-in that sets both flags
	NodeConfig string   `json:"nodeConfig,omitempty"` // path of the nodeadm drop-in (EKS) that sets both flags
	Dirs       []string `json:"dirs,omitempty"`       // directories that regcred created for these paths
}
