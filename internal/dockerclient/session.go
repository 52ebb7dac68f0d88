// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package dockerclient

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regcred/regcred/internal/flock"
)

// A Session is a directory with clients' files of its own, for one command. In
// them are this user's logins, and what regcred adds; the other entries of
// docker's directory (contexts, plugins, builders) are links to the user's.
type Session struct {
	Differ []Login // of the options' logins, those for which docker's file has no room

	dir    string
	held   *os.File
	docker []byte // config.json as it was made
	path   string // PATH with the helper's program; "" if it is there anyway
}

// SessionOptions say what a session has beside what the user has: a helper for
// hosts, or logins.
type SessionOptions struct {
	Hosts    []string // about which regcred's helper is asked, in place of whatever else the user has for them
	AllHosts bool     // and docker's about all others, if that hides nothing of the user's
	Logins   []Login  // in place of what the user has for their hosts; not with Hosts or AllHosts

	// Program is the helper's program, if it is to be found by its name and is
	// not on the PATH.
	Program string
}

// sessionPrefix begins the names of sessions' directories.
const sessionPrefix = "regcred-exec-"

// NewSession makes a session in a directory that is this user's alone, below
// XDG_RUNTIME_DIR, which is in memory, or that for temporary files. Those of
// processes that were killed are removed first, where the system has flock(2).
func NewSession(e Env, o SessionOptions) (*Session, error) {
	base := e.runtimeDir()
	sweep(base)
	s, err := makeSession(base)
	if err != nil {
		return nil, fmt.Errorf("create a directory for the command: %w", err)
	}
	if err := s.fill(e, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// runtimeDir is where sessions are.
func (e Env) runtimeDir() string {
	if dir := e.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		if info, err := os.Stat(e.abs(dir)); err == nil && info.IsDir() && isOurs(info) {
			return e.abs(dir)
		}
	}
	return e.abs(os.TempDir()) // the command may go elsewhere
}

// makeSession makes a directory and holds it for as long as this process lives,
// or one that it starts from now on: should it be killed, the command goes on.
func makeSession(base string) (*Session, error) {
	for range tries {
		dir, err := os.MkdirTemp(base, sessionPrefix)
		if err != nil {
			return nil, err
		}
		if f, held := hold(dir); held {
			return &Session{dir: dir, held: handedOn(f)}, nil
		}
		// Another run took it for one that nobody holds, before it was held.
		_ = os.RemoveAll(dir)
	}
	return nil, fmt.Errorf("new directories in %s cannot be opened, or another process keeps removing them", base)
}

// hold holds a directory unless somebody else does, or it is gone. Where
// nothing can be held the file is nil.
func hold(dir string) (f *os.File, held bool) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false
	}
	held, err = flock.Hold(f)
	if errors.Is(err, errors.ErrUnsupported) {
		f.Close()
		return nil, true
	}
	if !held || !isStill(dir, f) {
		f.Close()
		return nil, false
	}
	return f, true
}

// isStill reports whether a name still is that of an open file.
func isStill(name string, f *os.File) bool {
	named, err := os.Lstat(name)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(named, info)
}

// sweep removes sessions that their processes left behind. It is of no concern
// to this one whether it succeeds.
func sweep(base string) {
	entries, _ := os.ReadDir(base)
	for _, entry := range entries {
		dir := filepath.Join(base, entry.Name())
		info, err := os.Lstat(dir)
		if !strings.HasPrefix(entry.Name(), sessionPrefix) || err != nil || !info.IsDir() || !isOurs(info) {
			continue
		}
		if f, held := hold(dir); held && f != nil {
			_ = os.RemoveAll(dir)
			f.Close()
		}
	}
}

// Close removes the directory. What its links lead to stays.
func (s *Session) Close() error {
	err := os.RemoveAll(s.dir)
	if s.held != nil {
		s.held.Close()
	}
	if err != nil {
		return fmt.Errorf("remove the command's directory: %w", err)
	}
	return nil
}

// Changed reports whether docker's file is another than it was made: what the
// command wrote there is lost.
func (s *Session) Changed() bool {
	data, err := os.ReadFile(filepath.Join(s.dockerDir(), configFile))
	return err != nil || !bytes.Equal(data, s.docker)
}

// Environ returns an environment in which clients find the session's files.
func (s *Session) Environ(environ []string) []string {
	set := []string{"DOCKER_CONFIG=" + s.dockerDir(), "REGISTRY_AUTH_FILE=" + s.authFile()}
	if s.path != "" {
		set = append(set, "PATH="+s.path)
	}
	return append(slices.Clip(environ), set...) // of a name that is there twice, the last counts (os/exec)
}

func (s *Session) dockerDir() string { return filepath.Join(s.dir, "docker") }

// authFile is in a directory of its own: the one above is held, and who changes
// the file locks the directory that it is in.
func (s *Session) authFile() string { return filepath.Join(s.dir, "containers", authFile) }

// fill makes what is in the directory.
func (s *Session) fill(e Env, o SessionOptions) error {
	if err := os.Mkdir(s.dockerDir(), 0o700); err != nil {
		return err
	}
	if err := s.fillDocker(e, o); err != nil {
		return err
	}
	if err := s.fillContainers(e, o); err != nil {
		return err
	}
	if o.Program == "" {
		return nil
	}
	bin := filepath.Join(s.dir, "bin")
	s.path = bin
	if path := e.Getenv("PATH"); path != "" { // an empty element is the working directory
		s.path += string(filepath.ListSeparator) + path
	}
	if err := os.Mkdir(bin, 0o700); err != nil {
		return err
	}
	return os.Symlink(o.Program, filepath.Join(bin, filepath.Base(o.Program)))
}

func (s *Session) fillDocker(e Env, o SessionOptions) error {
	dir, err := e.dockerDir()
	if err != nil {
		dir = "" // there is nothing of the user's
	}
	var data []byte
	if dir != "" {
		f, err := open(filepath.Join(dir, configFile))
		if err != nil {
			return err
		}
		data = f.data
		if err := s.link(dir); err != nil {
			return err
		}
	}
	if s.docker, s.Differ, err = o.dockerFile(data); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, configFile), err)
	}
	return os.WriteFile(filepath.Join(s.dockerDir(), configFile), s.docker, 0o600)
}

// dockerFile is what docker's file is in a session.
func (o SessionOptions) dockerFile(data []byte) (text []byte, differ []Login, err error) {
	if len(o.Hosts) == 0 && !o.AllHosts {
		return PutLogins(data, o.Logins)
	}
	text, err = Put(data, Want{Hosts: Docker.Keys(o.Hosts), AllHosts: o.AllHosts, Others: Replace})
	return text, nil, err
}

// link makes links to all that docker has beside its file. Those that a client
// makes while it writes are no concern of the command.
func (s *Session) link(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), configFile) {
			continue
		}
		if err := os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(s.dockerDir(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) fillContainers(e Env, o SessionOptions) error {
	all, err := mergeAuthFiles(e.authFiles())
	if err != nil {
		return err
	}
	for _, host := range Containers.Keys(o.Hosts) {
		all.CredHelpers[host] = Helper
	}
	if err := all.putLogins(o.Logins); err != nil {
		return err
	}
	data, err := all.bytes()
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Dir(s.authFile()), 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.authFile(), data, 0o600)
}
