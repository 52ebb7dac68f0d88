// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package location

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Location is a parsed pattern, auth key or repository: its host without port, its port
// without colon, and its decoded path with the leading slash. Only locations from
// [Parse] can be matched, not the zero value or literals.
//
// The kubelet uses url.Parse("https://" + s) and net.SplitHostPort. This package has
// its own parser for three reasons. net/url changes with the Go version and GODEBUG of
// the importing program (urlstrictcolons). Matching must not allocate. Package net is
// larger than a small plugin. The rules are those of Go 1.26, with which kubelets since
// 1.36 are built. FuzzLocation compares this parser with net/url.
type Location struct {
	Host, Port, Path string
	labels           int // number of dot-separated parts of the host
}

// String formats l as a pattern.
func (l Location) String() string {
	host := l.Host
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	if l.Port != "" {
		host += ":" + l.Port
	}
	return host + l.Path
}

// Labels returns the dot-separated parts of the host, or nil for the zero value.
func (l Location) Labels() []string {
	if l.labels == 0 {
		return nil
	}
	return strings.Split(l.Host, ".")
}

// Parse parses a URL without a scheme: a pattern, an auth key or a repository.
// It allocates only for percent-escapes, IPv6 addresses and errors. Errors do
// not repeat s, which may contain a password.
func Parse(s string) (Location, error) {
	if l, ok := parseFast(s); ok {
		return l, nil
	}
	return parseGeneral(s)
}

// IsValidBeforeKubelet136 reports whether s is a valid pattern for kubelets before 1.36. Go
// before 1.26 treats the last colon of a host without brackets as the start of the port
// (GODEBUG urlstrictcolons).
func IsValidBeforeKubelet136(s string) bool {
	_, _, err := splitURL(s, strings.LastIndexByte)
	return err == nil
}

// parseFast parses locations that need no decoding, which are nearly all patterns and
// repositories, without allocating. ok is false for all other locations, valid or not.
func parseFast(s string) (l Location, ok bool) {
	l = Location{Host: s, labels: 1}
	if i := strings.IndexByte(s, '/'); i >= 0 {
		l.Host, l.Path = s[:i], s[i:]
	}
	if i := strings.IndexByte(l.Host, ':'); i >= 0 {
		l.Host, l.Port = l.Host[:i], l.Host[i+1:]
	}
	for i := range len(l.Host) {
		switch c := l.Host[i]; {
		case isLower(c) || isDigit(c) || c == '-' || c == '*' || c == '_' || isUpper(c):
		case c == '.':
			l.labels++
		default:
			return l, false
		}
	}
	for i := range len(l.Path) {
		if c := l.Path[i]; c < ' ' || c == 0x7f || c == '%' || c == '?' || c == '#' {
			return l, false
		}
	}
	return l, isAllDigits(l.Port)
}

func parseGeneral(s string) (Location, error) {
	hostport, path, err := splitURL(s, strings.IndexByte)
	if err != nil {
		return Location{}, err
	}
	host, port := splitPort(hostport)
	return Location{Host: host, Port: port, Path: path, labels: strings.Count(host, ".") + 1}, nil
}

// splitPort splits a result of parseHost like net.SplitHostPort.
//
// kubelet: if SplitHostPort fails, uses the whole text as the host. For this reason,
// "[::1]" without a port keeps its brackets.
func splitPort(s string) (host, port string) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, ""
	}
	host, port = s[:i], s[i+1:]
	if address, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(address, "]"); !ok {
			return s, ""
		}
	}
	if strings.ContainsAny(host, "[]") || strings.Contains(port, "]") {
		return s, ""
	}
	return host, port
}

// splitURL returns the Host and Path of url.Parse("https://" + s), and fails if
// url.Parse does. colon finds the colon before the port.
func splitURL(s string, colon func(string, byte) int) (hostport, path string, err error) {
	s, fragment, _ := strings.Cut(s, "#")
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return "", "", fmt.Errorf("control character at byte %d", i)
		}
	}
	if _, err := percentDecode(fragment, partPath); err != nil {
		return "", "", fmt.Errorf("fragment: %w", err)
	}
	s, _, _ = strings.Cut(s, "?") // the query is not decoded
	authority := s
	if i := strings.IndexByte(s, '/'); i >= 0 {
		authority, path = s[:i], s[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if err := checkUserinfo(authority[:i]); err != nil {
			return "", "", err
		}
		authority = authority[i+1:]
	}
	hostport, err = parseHost(authority, colon)
	if err != nil {
		return "", "", err
	}
	path, err = percentDecode(path, partPath)
	if err != nil {
		return "", "", fmt.Errorf("path: %w", err)
	}
	return hostport, path, nil
}

func checkUserinfo(s string) error {
	for i := range len(s) {
		c := s[i]
		if !isLower(c) && !isUpper(c) && !isDigit(c) && strings.IndexByte("-._:~!$&'()*+,;=%@", c) < 0 {
			return fmt.Errorf("invalid character %q in user information before @", c)
		}
	}
	_, err := percentDecode(s, partPath)
	return err
}

// parseHost checks and decodes host[:port] like the function of the same name in
// net/url.
func parseHost(s string, colon func(string, byte) int) (string, error) {
	switch open := strings.LastIndexByte(s, '['); {
	case open == 0:
		return parseIPLiteral(s)
	case open > 0:
		return "", errors.New("unexpected [ in the host: only IPv6 addresses can be enclosed in brackets")
	}
	if i := colon(s, ':'); i >= 0 {
		if err := checkPort(s[i:]); err != nil {
			return "", err
		}
	}
	return percentDecode(s, partHost)
}

func parseIPLiteral(s string) (string, error) {
	end := strings.LastIndexByte(s, ']')
	if end < 0 {
		return "", errors.New("missing ] after the IPv6 address")
	}
	port := s[end+1:]
	if err := checkPort(port); err != nil {
		return "", err
	}
	host, zone := s[1:end], ""
	if i := strings.Index(host, "%25"); i >= 0 {
		host, zone = host[:i], host[i:]
	}
	host, err := percentDecode(host, partHost)
	if err != nil {
		return "", err
	}
	zone, err = percentDecode(zone, partIPv6Zone)
	if err != nil {
		return "", err
	}
	addr, err := netip.ParseAddr(host + zone)
	if err != nil {
		return "", errors.New("the text in brackets is not an IPv6 address")
	}
	if addr.Is4() {
		return "", errors.New("an IPv4 address cannot be enclosed in brackets")
	}
	return "[" + host + zone + "]" + port, nil
}

// checkPort accepts "" and a colon followed by any number of digits.
func checkPort(s string) error {
	if s == "" {
		return nil
	}
	if s[0] != ':' {
		return errors.New("the text after the IPv6 address is not a port")
	}
	if !isAllDigits(s[1:]) {
		return errors.New("the text after the first colon in the host is not a port") // the text may be a password
	}
	return nil
}

// urlPart is a part of a URL. Parts differ in which bytes may be escaped.
type urlPart int

const (
	partPath urlPart = iota // also used for user information and fragments: any byte may be escaped
	partHost
	partIPv6Zone
)

// percentDecode decodes percent-escapes and, in a host or zone, checks all bytes.
func percentDecode(s string, part urlPart) (string, error) {
	var decoded []byte // nil while s has no escape
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%':
			v, ok := decodeEscape(s, i)
			if !ok {
				return "", fmt.Errorf("percent sign at byte %d is not followed by two hex digits", i)
			}
			if !mayEscape(v, part) {
				return "", fmt.Errorf("invalid escape %q in the host", s[i:i+3])
			}
			if decoded == nil {
				decoded = append(make([]byte, 0, len(s)), s[:i]...)
			}
			c = v
			i += 2
		case part != partPath && c < 0x80 && !isHostByte(c):
			return "", fmt.Errorf("invalid character %q in the host", c)
		}
		if decoded != nil {
			decoded = append(decoded, c)
		}
	}
	if decoded == nil {
		return s, nil
	}
	return string(decoded), nil
}

// mayEscape reports whether v may be percent-escaped (RFC 3986, section 3.2.2; RFC
// 6874).
func mayEscape(v byte, part urlPart) bool {
	switch part {
	case partHost:
		return v >= 0x80 || v == '%'
	case partIPv6Zone:
		return v == '%' || v == ' ' || isHostByte(v)
	default:
		return true
	}
}

// isHostByte reports whether the ASCII byte c is allowed unescaped in a host. It returns
// false for bytes from 0x80, which unescape allows in a host.
func isHostByte(c byte) bool {
	return isLower(c) || isUpper(c) || isDigit(c) || strings.IndexByte("-._~!$&'()*+,;=:[]<>\"", c) >= 0
}

// decodeEscape decodes the percent-escape at s[i].
func decodeEscape(s string, i int) (byte, bool) {
	if i+2 >= len(s) {
		return 0, false
	}
	hi, ok1 := hexValue(s[i+1])
	lo, ok2 := hexValue(s[i+2])
	return hi<<4 | lo, ok1 && ok2
}

func hexValue(c byte) (byte, bool) {
	i := strings.IndexByte("0123456789abcdefABCDEF", c)
	if i >= 16 {
		i -= 6
	}
	return byte(i), i >= 0
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isAllDigits reports whether s is empty or contains only digits.
func isAllDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}
