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

// Session is a private directory with clients' files for a single command. The files contain the
// user's credentials and regcred's additions. The other files in docker's directory (contexts,
// plugins, builders) are symlinks to the user's files.
type Session struct {
	Differing []Credential // credentials that do not fit in docker's file, which has one per host

	dir      string
	lockFile *os.File
	docker   []byte                  // config.json as it was written
	path     string                  // PATH including the helper's directory; "" if the helper is already on the PATH
	replaced func(scope string) bool // whether a credential of the user for a scope is replaced
}

// SessionOptions selects what a session adds to the user's files: a helper for hosts,
// or credentials.
type SessionOptions struct {
	Hosts       []string     // use regcred's helper for these hosts, whatever the user's files contain
	AllHosts    bool         // also use it for all other hosts in docker's file; NewSession fails if this hides credentials
	Credentials []Credential // replace the user's entries for their hosts; cannot be combined with Hosts or AllHosts

	// Program is the path of the helper's program if it is not on the PATH.
	Program string
}

const sessionPrefix = "regcred-exec-"

// NewSession creates a session in a private directory below XDG_RUNTIME_DIR, which is
// in memory, or in the directory for temporary files. On systems with flock(2), it
// first removes the sessions of killed processes.
func NewSession(e Env, o SessionOptions) (*Session, error) {
	for _, l := range o.Credentials {
		if _, err := l.authEntry(); err != nil {
			return nil, err
		}
	}
	base := e.runtimeDir()
	removeStaleSessions(base)
	s, err := newLockedSession(base)
	if err != nil {
		return nil, fmt.Errorf("create a directory for the command: %w", err)
	}
	s.replaced = func(scope string) bool {
		return slices.Contains(o.Hosts, scope) || coversAny(scope, o.Credentials) ||
			slices.ContainsFunc(o.Credentials, func(l Credential) bool { return l.Host() == scope })
	}
	if err := s.writeFiles(e, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// runtimeDir returns the directory that contains sessions.
func (e Env) runtimeDir() string {
	if dir := e.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		if info, err := os.Stat(e.absPath(dir)); err == nil && info.IsDir() && isOwnedByUser(info) {
			return e.absPath(dir)
		}
	}
	return e.absPath(os.TempDir()) // an absolute path, because the command may change the working directory
}

// newLockedSession creates a directory and locks it. Child processes inherit the lock, because the
// command continues if this process is killed.
func newLockedSession(base string) (*Session, error) {
	for range maxApplyAttempts {
		dir, err := os.MkdirTemp(base, sessionPrefix)
		if err != nil {
			return nil, err
		}
		if f, held := lockDir(dir); held {
			return &Session{dir: dir, lockFile: dupInheritable(f)}, nil
		}
		// Before the directory was locked, another process removed it as the directory of a killed
		// process.
		_ = os.RemoveAll(dir)
	}
	return nil, fmt.Errorf("new directories in %s cannot be opened, or another process keeps removing them", base)
}

// lockDir locks a directory unless another process has locked or removed it. The file
// is nil if the system cannot lock directories.
func lockDir(dir string) (f *os.File, held bool) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false
	}
	held, err = flock.TryLock(f)
	if errors.Is(err, errors.ErrUnsupported) {
		f.Close()
		return nil, true
	}
	if !held || !isSameFile(dir, f) {
		f.Close()
		return nil, false
	}
	return f, true
}

// isSameFile reports whether a name still leads to an open file.
func isSameFile(name string, f *os.File) bool {
	named, err := os.Lstat(name)
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(named, info)
}

// removeStaleSessions removes the sessions of killed processes. It ignores errors,
// because they do not affect this session.
func removeStaleSessions(base string) {
	entries, _ := os.ReadDir(base)
	for _, entry := range entries {
		dir := filepath.Join(base, entry.Name())
		info, err := os.Lstat(dir)
		if !strings.HasPrefix(entry.Name(), sessionPrefix) || err != nil || !info.IsDir() || !isOwnedByUser(info) {
			continue
		}
		if f, held := lockDir(dir); held && f != nil {
			_ = os.RemoveAll(dir)
			f.Close()
		}
	}
}

// Close removes the directory, but not the targets of its links.
func (s *Session) Close() error {
	err := os.RemoveAll(s.dir)
	if s.lockFile != nil {
		s.lockFile.Close()
	}
	if err != nil {
		return fmt.Errorf("remove the command's directory: %w", err)
	}
	return nil
}

// IsChanged reports whether the command changed docker's file. The changes are lost.
func (s *Session) IsChanged() bool {
	data, err := os.ReadFile(filepath.Join(s.dockerDir(), configFileName))
	return err != nil || !bytes.Equal(data, s.docker)
}

// authVariable is a variable with docker's auths, which docker prefers over all files.
const authVariable = "DOCKER_AUTH_CONFIG"

// Environ returns an environment in which clients find the session's files. Credentials that the
// session replaces are removed from DOCKER_AUTH_CONFIG.
func (s *Session) Environ(environ []string) []string {
	set := []string{"DOCKER_CONFIG=" + s.dockerDir(), "REGISTRY_AUTH_FILE=" + s.authFile()}
	if s.path != "" {
		set = append(set, "PATH="+s.path)
	}
	environ = slices.Clone(environ)
	for i, entry := range environ {
		if text, ok := strings.CutPrefix(entry, authVariable+"="); ok {
			environ[i] = authVariable + "=" + s.removeReplaced(text)
		}
	}
	return append(environ, set...) // os/exec uses the last of several variables with the same name
}

// removeReplaced returns a value of DOCKER_AUTH_CONFIG without the credentials that the session
// replaces. It returns "" if there are no others. Docker ignores malformed values.
func (s *Session) removeReplaced(text string) string {
	doc, err := parseDocument([]byte(text))
	if err != nil || text == "" || doc.removeScopes(s.replaced) != nil {
		return text
	}
	if m, set := doc.findMember(authsField); set {
		if left, err := doc.memberValue(m).parseMembers(); err == nil && len(left) == 0 {
			return ""
		}
	}
	return string(doc.encode())
}

func (s *Session) dockerDir() string { return filepath.Join(s.dir, "docker") }

// authFile returns the path of podman's file. It is in a subdirectory, because programs that change
// the file lock its directory, and the session's directory is already locked.
func (s *Session) authFile() string { return filepath.Join(s.dir, "containers", authFileName) }

func (s *Session) writeFiles(e Env, o SessionOptions) error {
	if err := os.Mkdir(s.dockerDir(), 0o700); err != nil {
		return err
	}
	if err := s.writeDockerFile(e, o); err != nil {
		return err
	}
	if err := s.writeContainersFile(e, o); err != nil {
		return err
	}
	if o.Program == "" {
		return nil
	}
	bin := filepath.Join(s.dir, "bin")
	s.path = bin
	if path := e.Getenv("PATH"); path != "" { // an empty element would mean the working directory
		s.path += string(filepath.ListSeparator) + path
	}
	if err := os.Mkdir(bin, 0o700); err != nil {
		return err
	}
	return os.Symlink(o.Program, filepath.Join(bin, filepath.Base(o.Program)))
}

func (s *Session) writeDockerFile(e Env, o SessionOptions) error {
	dir, err := e.dockerDir()
	if err != nil {
		dir = "" // the user has no such directory
	}
	var data []byte
	if dir != "" {
		f, err := readFile(filepath.Join(dir, configFileName))
		if err != nil {
			return err
		}
		data = f.data
		if err := s.linkDockerDir(dir); err != nil {
			return err
		}
	}
	if len(o.Hosts) > 0 || o.AllHosts {
		s.docker, err = PutEntries(data, DesiredEntries{Hosts: ClientDocker.HelperKeys(o.Hosts), AllHosts: o.AllHosts, Others: ConflictReplace})
	} else {
		s.docker, s.Differing, err = PutCredentials(data, o.Credentials)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, configFileName), err)
	}
	return os.WriteFile(filepath.Join(s.dockerDir(), configFileName), s.docker, 0o600)
}

// linkDockerDir creates symlinks to everything in docker's directory except config.json and its
// temporary files.
func (s *Session) linkDockerDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(strings.TrimPrefix(e.Name(), "."), configFileName) {
			continue
		}
		if err := os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(s.dockerDir(), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) writeContainersFile(e Env, o SessionOptions) error {
	all, err := mergeAuthFiles(e.authFiles())
	if err != nil {
		return err
	}
	for _, host := range ClientContainers.HelperKeys(o.Hosts) {
		all.CredHelpers[host] = HelperName
	}
	if err := all.addCredentials(o.Credentials); err != nil {
		return err
	}
	data, err := all.encode()
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Dir(s.authFile()), 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.authFile(), data, 0o600)
}
