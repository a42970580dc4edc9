package httpapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/fsm"
)

const testKeys = `
# who may do what
all-key name=everything
send-key scopes=send
recv-key scopes=receive   name=worker # the night shift
read-key scopes=read
admin-key scopes=admin
both-key scopes=send,receive
old-key blocked scopes=send name=old
`

func parseTestKeys(t testing.TB) *Keys {
	t.Helper()
	keys, err := ParseKeys(strings.NewReader(testKeys))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestParseKeysRefuses(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"nothing", "", "no key"},
		{"comments only", "# a\n\n  # b\n", "no key"},
		{"unknown word", "k1\nk2 admin", "line 2: word 2"},
		{"later word", "k1 blocked scopes=send nam=x", "line 1: word 4"},
		{"unknown scope", "k1 scopes=send,write", "line 1: scopes="},
		{"empty scopes", "k1 scopes=", "line 1: scopes="},
		{"empty name", "k1 name=", "line 1: name="},
		{"long name", "k1 name=" + strings.Repeat("n", 65), "line 1: name="},
		{"key twice", "k1\n\nk1 blocked", "line 3: this key"},
		{"scopes twice", "k1 scopes=send scopes=read", "line 1: word 3"},
		{"blocked twice", "k1 blocked blocked", "line 1: word 3"},
		{"blocked with a value", "k1 blocked=no", "line 1: word 2"},
		{"long key", strings.Repeat("k", 257), "line 1: a key"},
		{"key with other letters", "k\u00e9y", "line 1: a key"},
		{"control character", "k\x01", "line 1: a key"},
		{"endless line", "k1\n" + strings.Repeat("x", 1<<17), "line 2: the line is too long"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseKeys(strings.NewReader(test.file))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "k1") {
				t.Fatalf("the error quotes a key: %v", err)
			}
		})
	}
}

func TestParseKeysAccepts(t *testing.T) {
	file := "\xef\xbb\xbf"[3:] + strings.Repeat("k", 256) + "\r\n!~@#:/+= name=a.b/c\n#k\n"
	keys, err := ParseKeys(strings.NewReader(file))
	if err != nil || len(keys.byDigest) != 2 {
		t.Fatalf("%v, %v", keys, err)
	}
}

func TestLoadKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := LoadKeys(path); err == nil {
		t.Error("a missing file loaded")
	}
	for content, ok := range map[string]bool{"k1\n": true, "k1 what\n": false} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeys(path); (err == nil) != ok {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestAuthorization(t *testing.T) {
	s := newTestServer(t, &fakeBroker{}, func(c *Config) { c.AnyKey, c.Keys = false, parseTestKeys(t) })
	tests := []struct {
		name   string
		values []string
		status int
	}{
		{"a key", []string{"Bearer all-key"}, 201},
		{"scheme in another case", []string{"bEARER all-key"}, 201},
		{"more spaces", []string{"Bearer   all-key"}, 201},
		{"no header", nil, 401},
		{"no key", []string{"Bearer"}, 401},
		{"empty key", []string{"Bearer  "}, 401},
		{"no scheme", []string{"all-key"}, 401},
		{"another scheme", []string{"Basic all-key"}, 401},
		{"unknown key", []string{"Bearer all-keys"}, 401},
		{"key in another case", []string{"Bearer ALL-KEY"}, 401},
		{"two keys in one", []string{"Bearer all-key all-key"}, 401},
		{"two headers", []string{"Bearer all-key", "Bearer all-key"}, 401},
		{"a comment's word", []string{"Bearer #"}, 401},
		{"other letters", []string{"Bearer \xff\xfe"}, 401},
		{"blocked", []string{"Bearer old-key"}, 403},
		{"without the scope", []string{"Bearer read-key"}, 403},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var h header
			for _, v := range test.values {
				h = append(h, "Authorization", v)
			}
			if h == nil {
				h = header{"Authorization", ""}
			}
			w := do(s, "POST", testQueue+"/send", "x", h...)
			if test.status == 201 {
				wantStatus(t, w, 201)
				return
			}
			challenge := w.Header().Get("WWW-Authenticate")
			wantProblem(t, w, test.status, "")
			if (test.status == 401) != (challenge == "Bearer") {
				t.Errorf("WWW-Authenticate %q", challenge)
			}
		})
	}
}

// TestScopes tries every call with every key.
func TestScopes(t *testing.T) {
	s := newTestServer(t, &fakeBroker{err: fsm.ErrNotApplied}, func(c *Config) { c.AnyKey, c.Keys = false, parseTestKeys(t) })
	keys := map[string]Scope{"all-key": AllScopes, "send-key": ScopeSend, "recv-key": ScopeReceive, "read-key": ScopeRead,
		"admin-key": ScopeAdmin, "both-key": ScopeSend | ScopeReceive}
	for i := range operations {
		op := &operations[i]
		if op.public {
			continue
		}
		target := strings.NewReplacer(":spool", "default", ":queue", "orders", ":node", "n1").Replace(op.path)
		for key, scopes := range keys {
			w := do(s, op.method, target, "", "Authorization", "Bearer "+key)
			if allowed := op.scope&^scopes == 0; allowed == (w.Code == 403) {
				t.Errorf("%s with %s: %d", op.name, key, w.Code)
			}
		}
		wantProblem(t, do(s, op.method, target, "", "Authorization", "Bearer old-key"), 403, "")
		wantProblem(t, do(s, op.method, target, "", "Authorization", "Bearer nobody"), 401, "")
	}
	w := do(s, "POST", "/v1/spools/default/ack-and-send", "", "Authorization", "Bearer send-key")
	if got := wantProblem(t, w, 403, ""); !strings.Contains(got.Message, "the scope receive that") {
		t.Errorf("the message does not name what is lacking: %s", got.Message)
	}
}

func TestAnyKey(t *testing.T) {
	s := newTestServer(t, &fakeBroker{})
	wantStatus(t, do(s, "POST", testQueue+"/send", "", "Authorization", "Bearer whatever"), 201)
	wantProblem(t, do(s, "POST", testQueue+"/send", "", "Authorization", ""), 401, "")
}
