// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/regcred/regcred/internal/regularfile"
	"github.com/regcred/regcred/internal/tomlfile"
)

// hostsFile is a hosts.toml as a given release reads it.
type hostsFile struct {
	path       string
	file       *tomlfile.File  // nil if the file is missing or empty
	hosts      []host          // host tables in file order, then the server or the image's own host
	parseError *hostsFileError // nil if containerd accepts the file
}

// host is a host table of a hosts.toml, or its server.
type host struct {
	name   string // as configured; "" for the image's own host
	keys   []string
	line   int
	url    *url.URL // nil for the image's own host
	table  hostTable
	ca     []string
	client [][2]string
}

// hostTable holds the settings of a host or the server.
type hostTable struct {
	Capabilities []string       `toml:"capabilities"`
	CA           any            `toml:"ca"`
	Client       any            `toml:"client"`
	SkipVerify   *bool          `toml:"skip_verify"`
	OverridePath bool           `toml:"override_path"`
	Header       map[string]any `toml:"header"`
	DialTimeout  string         `toml:"dial_timeout"`
}

// clearWrongCaseKeys clears the settings whose keys are not in lower case. containerd 1 ignores
// such keys, because its parser is case-sensitive.
func (t *hostTable) clearWrongCaseKeys(written map[string]any) {
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		if written[v.Type().Field(i).Tag.Get("toml")] == nil {
			v.Field(i).SetZero()
		}
	}
}

// hostsFileError is the reason why containerd ignores a whole hosts.toml.
type hostsFileError struct {
	line    int // 0 if unknown
	message string
	fix     string
}

func (e *hostsFileError) Error() string { return e.message }

func newHostsFileError(line int, format string, args ...any) *hostsFileError {
	return &hostsFileError{line: line, message: fmt.Sprintf(format, args...)}
}

// readHosts reads the hosts.toml of a directory. It returns an error only if the file cannot be
// read. Invalid content is stored as parseError.
func (r *Runtime) readHosts(dir string, v Version) (*hostsFile, error) {
	h := &hostsFile{path: filepath.Join(dir, "hosts.toml")}
	f, err := v.tomlParser()(context.Background(), r.fs(), h.path)
	switch bad, ok := errors.AsType[*tomlfile.Error](err); {
	case ok:
		h.file, h.parseError = f, newHostsFileError(bad.Line, "%v", bad)
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case len(f.TableKeys()) > maxHostEntries:
		return nil, fmt.Errorf("%s: more than %d tables", h.path, maxHostEntries)
	case !f.IsEmpty():
		h.file = f
		h.parseError = h.parseHosts(v)
	}
	if h.file == nil || h.parseError != nil {
		own, err := r.readCertificates(dir)
		if err != nil {
			return nil, err
		}
		h.hosts = []host{own}
	}
	return h, nil
}

// parseHosts decodes the file into h.hosts.
func (h *hostsFile) parseHosts(v Version) *hostsFileError {
	var file struct {
		Server string               `toml:"server"`
		Hosts  map[string]hostTable `toml:"host"`
		hostTable
	}
	var top map[string]any
	if err := errors.Join(h.file.Decode(&file), h.file.Decode(&top)); err != nil {
		bad, _ := errors.AsType[*tomlfile.Error](err)
		return newHostsFileError(bad.Line, "%v", bad)
	}
	if _, isTable := top["host"].(map[string]any); !isTable && !v.isAtLeast2() {
		return &hostsFileError{message: "the file has no host table, so containerd 1 treats it as invalid", fix: "add an empty [host] table at the end of the file"}
	}
	if !v.isAtLeast2() {
		file.hostTable.clearWrongCaseKeys(top)
		if top["server"] == nil {
			file.Server = ""
		}
		for name, t := range file.Hosts {
			t.clearWrongCaseKeys(asTable(asTable(top["host"])[name]))
			file.Hosts[name] = t
		}
	}
	dir := filepath.Dir(h.path)
	for _, name := range h.queryOrder(v, file.Hosts) {
		one := host{name: name, keys: []string{"host", name}, table: file.Hosts[name]}
		if bad := one.parseTable(h.file, dir, v); bad != nil {
			return bad
		}
		h.hosts = append(h.hosts, one)
	}
	server := host{name: file.Server, table: file.hostTable}
	if bad := server.parseTable(h.file, dir, v); bad != nil {
		return bad
	}
	h.hosts = append(h.hosts, server)
	return nil
}

// queryOrder returns the names of the host tables in the order in which containerd
// queries the hosts. containerd 2 ignores inline tables. It queries a host twice if the
// host's tables are not adjacent.
func (h *hostsFile) queryOrder(v Version, hosts map[string]hostTable) (names []string) {
	for _, keys := range h.file.TableKeys() {
		if len(keys) < 2 || keys[0] != "host" {
			continue
		}
		again := slices.Contains(names, keys[1])
		if v.isAtLeast2() {
			again = len(names) > 0 && names[len(names)-1] == keys[1]
		}
		if !again {
			names = append(names, keys[1])
		}
	}
	if v.isAtLeast2() {
		return names
	}
	var rest []string
	for name := range hosts {
		if !slices.Contains(names, name) {
			rest = append(rest, name)
		}
	}
	names = append(names, rest...)
	slices.SortStableFunc(names, func(a, b string) int { return h.file.Line("host", a) - h.file.Line("host", b) })
	return names
}

// keyLine returns the line of the host's key or table.
func (h *host) keyLine(f *tomlfile.File, key ...string) int {
	if line := f.NearestLine(append(slices.Clone(h.keys), key...)...); line > 0 {
		return line
	}
	return 1
}

// parseTable decodes a table as containerd's parseHostConfig does.
func (h *host) parseTable(f *tomlfile.File, dir string, v Version) *hostsFileError {
	h.line = f.Line(h.keys...)
	if h.keys == nil {
		h.line = f.Line("server")
	}
	if bad := h.parseURL(); bad != nil {
		return bad
	}
	for _, c := range h.table.Capabilities {
		known := []string{"pull", "resolve", "push"}
		if v.supportsReferrers() {
			known = append(known, "referrers")
		}
		if !slices.Contains(known, strings.ToLower(c)) {
			return newHostsFileError(h.keyLine(f, "capabilities"), "unknown capability %q", c)
		}
	}
	if _, err := time.ParseDuration(h.table.DialTimeout); err != nil && h.table.DialTimeout != "" && v.supportsDialTimeout() {
		return newHostsFileError(h.keyLine(f, "dial_timeout"), "dial_timeout must be a duration such as \"30s\"")
	}
	return h.parseFiles(f, dir)
}

func (h *host) parseURL() *hostsFileError {
	if h.name == "" && h.keys == nil {
		return nil
	}
	address := h.name
	if !strings.HasPrefix(address, "http") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if h.name != "" && err != nil {
		return newHostsFileError(h.line, "a host or server must be a URL")
	}
	if h.name == "" {
		u = &url.URL{}
	}
	switch {
	case len(u.Path) > 0:
		if u.Path = path.Clean(u.Path); !strings.HasSuffix(u.Path, "/v2") && !h.table.OverridePath {
			u.Path += "/v2"
		}
	case !h.table.OverridePath:
		u.Path = "/v2"
	}
	h.url = u
	return nil
}

// parseFiles decodes ca, client and header.
func (h *host) parseFiles(f *tomlfile.File, dir string) *hostsFileError {
	abs := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	var ok bool
	if h.ca, ok = parseStringList(h.table.CA); !ok {
		return newHostsFileError(h.keyLine(f, "ca"), "ca must be a path or a list of paths")
	}
	for i := range h.ca {
		h.ca[i] = abs(h.ca[i])
	}
	if h.client, ok = parseCertPairs(h.table.Client); !ok {
		return newHostsFileError(h.keyLine(f, "client"), "client must be a path, a list of paths or a list of pairs")
	}
	for i, pair := range h.client {
		if h.client[i][0] = abs(pair[0]); pair[1] != "" {
			h.client[i][1] = abs(pair[1])
		}
	}
	for name, value := range h.table.Header {
		if _, ok := parseStringList(value); !ok {
			return newHostsFileError(h.keyLine(f, "header", name), "a header must be a string or a list of strings")
		}
	}
	return nil
}

// parseStringList decodes a string or a list of strings.
func parseStringList(v any) (texts []string, ok bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		return []string{v}, true
	case []any:
		for _, item := range v {
			s, ok := item.(string)
			if !ok {
				return nil, false
			}
			texts = append(texts, s)
		}
		return texts, true
	}
	return nil, false
}

// parseCertPairs decodes a string, a list of strings or a list of pairs into pairs of a certificate
// and a key.
func parseCertPairs(v any) (found [][2]string, ok bool) {
	items, isList := v.([]any)
	if !isList {
		items = []any{v}
	}
	if v == nil {
		return nil, true
	}
	for _, item := range items {
		texts, ok := parseStringList(item)
		_, nested := item.([]any)
		if !ok || nested != (len(texts) == 2) || len(texts) == 0 {
			return nil, false
		}
		found = append(found, [2]string{texts[0], strings.Join(texts[1:], "")})
	}
	return found, true
}

// readCertificates returns the image's own host with the certificates in its directory.
// *.crt files are CAs; *.cert and *.key files are for the client.
func (r *Runtime) readCertificates(dir string) (own host, err error) {
	entries, err := r.fs().ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return own, fmt.Errorf("%s: %w", dir, regularfile.BareError(err))
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			continue
		}
		if strings.HasSuffix(name, ".crt") {
			own.ca = append(own.ca, name)
		}
		if base, ok := strings.CutSuffix(name, ".cert"); ok {
			pair := [2]string{name}
			if _, err := r.fs().Stat(base + ".key"); err == nil {
				pair[1] = base + ".key"
			}
			own.client = append(own.client, pair)
		}
	}
	return own, nil
}

// maxHostEntries limits the number of directories checked, and of tables in a
// hosts.toml.
const maxHostEntries = 1000
