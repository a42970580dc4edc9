package httpapi

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Scope is a set of things that a key may do.
type Scope uint8

// The scopes.
const (
	ScopeSend    Scope = 1 << iota // send; ack-and-send needs ScopeReceive too
	ScopeReceive                   // receive, settle, and everything with a handle
	ScopeRead                      // queues, stats, message listings
	ScopeAdmin                     // create, change and delete queues; the cluster

	AllScopes = ScopeSend | ScopeReceive | ScopeRead | ScopeAdmin
)

var scopeNames = [...]struct {
	scope Scope
	name  string
}{{ScopeSend, "send"}, {ScopeReceive, "receive"}, {ScopeRead, "read"}, {ScopeAdmin, "admin"}}

// String returns the names of the scopes in s, joined by commas.
func (s Scope) String() string {
	var names []string
	for _, n := range scopeNames {
		if s&n.scope != 0 {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

// Bounds of the key file.
const (
	maxKeyBytes   = 256
	maxLabelBytes = 64
)

// key is what is known of a bearer key. The key itself is not kept.
type key struct {
	blocked bool
	scopes  Scope
	label   string // for the access log, "" for none
}

// Keys are the bearer keys that a server accepts. They are held as SHA-256
// digests, so that the time of a look-up says nothing about a key.
type Keys struct{ byDigest map[[sha256.Size]byte]*key }

// LoadKeys reads the key file at path, see [ParseKeys].
func LoadKeys(path string) (*Keys, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the key file can't be opened: %w", err)
	}
	defer f.Close()
	keys, err := ParseKeys(f)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return keys, nil
}

// ParseKeys reads keys, one a line:
//
//	KEY [blocked] [scopes=send,receive,read,admin] [name=LABEL]
//
// A key without scopes has all of them. Blank lines and everything from a word
// that starts with # are ignored. Errors name the line and never quote it.
func ParseKeys(r io.Reader) (*Keys, error) {
	keys := &Keys{byDigest: make(map[[sha256.Size]byte]*key)}
	lines := bufio.NewScanner(r)
	number := 0
	for lines.Scan() {
		number++
		if err := keys.addLine(lines.Text()); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: the line is too long", number+1)
	} else if err != nil {
		return nil, fmt.Errorf("after line %d: %w", number, err)
	}
	if len(keys.byDigest) == 0 {
		return nil, errors.New("there is no key in it: write one a line")
	}
	return keys, nil
}

func (k *Keys) addLine(line string) error {
	var words []string
	for _, w := range strings.Fields(line) {
		if w[0] == '#' {
			break
		}
		words = append(words, w)
	}
	if len(words) == 0 {
		return nil
	}
	text := words[0]
	if len(text) > maxKeyBytes || !printable(text) {
		return fmt.Errorf("a key is 1 to %d printable ASCII characters without spaces", maxKeyBytes)
	}
	entry, err := parseKeyOptions(words[1:])
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(text))
	if k.byDigest[digest] != nil {
		return errors.New("this key is on an earlier line too")
	}
	k.byDigest[digest] = entry
	return nil
}

func parseKeyOptions(words []string) (*key, error) {
	entry := &key{scopes: AllScopes}
	seen := make(map[string]bool)
	for i, w := range words {
		name, value, _ := strings.Cut(w, "=")
		if seen[name] {
			return nil, fmt.Errorf("word %d says again what an earlier word says", i+2)
		}
		seen[name] = true
		var err error
		switch {
		case w == "blocked":
			entry.blocked = true
		case name == "scopes":
			entry.scopes, err = parseScopes(value)
		case name == "name":
			entry.label, err = value, checkLabel(value)
		default:
			err = fmt.Errorf("word %d is none of blocked, scopes=LIST and name=LABEL", i+2)
		}
		if err != nil {
			return nil, err
		}
	}
	return entry, nil
}

func parseScopes(list string) (Scope, error) {
	var scopes Scope
next:
	for word := range strings.SplitSeq(list, ",") {
		for _, n := range scopeNames {
			if n.name == word {
				scopes |= n.scope
				continue next
			}
		}
		return 0, fmt.Errorf("scopes= takes a list of %s, joined by commas without spaces", AllScopes)
	}
	return scopes, nil
}

func checkLabel(label string) error {
	if label == "" || len(label) > maxLabelBytes || !printable(label) {
		return fmt.Errorf("name= takes 1 to %d printable ASCII characters without spaces", maxLabelBytes)
	}
	return nil
}

// printable reports whether s is ASCII without spaces and control characters.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// anyKey stands for every key where the server takes any.
var anyKey = &key{scopes: AllScopes}

// authorize checks the call's key and scope.
func (c *call) authorize(need Scope) *problem {
	text, ok := bearer(c.r.Header["Authorization"])
	if !ok {
		return problemUnauthorized
	}
	k := anyKey
	if !c.s.anyKey {
		if k = c.s.keys.byDigest[sha256.Sum256([]byte(text))]; k == nil {
			return problemUnauthorized
		}
	}
	c.keyLabel = k.label
	if k.blocked {
		return problemBlocked
	}
	if need&^k.scopes != 0 {
		return problemScope(need &^ k.scopes)
	}
	return nil
}

// bearer returns the key of the only Authorization header.
func bearer(values []string) (string, bool) {
	const scheme = "Bearer "
	if len(values) != 1 {
		return "", false
	}
	v := values[0]
	if len(v) <= len(scheme) || !strings.EqualFold(v[:len(scheme)], scheme) {
		return "", false
	}
	text := strings.TrimLeft(v[len(scheme):], " ")
	return text, text != ""
}
