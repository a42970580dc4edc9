package faults

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spoolraft/spoolraft/httpapi"
)

// TestBadRules: each is refused with a sentence that says why.
func TestBadRules(t *testing.T) {
	tests := []struct{ rule, message string }{
		{``, "one JSON object"},
		{`[]`, "one JSON object"},
		{`null`, "one JSON object"},
		{`{"fault":"drop"`, "one JSON object"},
		{`{"fault":"drop"} {}`, "one JSON object"},
		{`{}`, "fault must be one of"},
		{`{"fault":null}`, "fault must be text"},
		{`{"fault":503}`, "fault must be text"},
		{`{"fault":""}`, "fault must be text"},
		{`{"fault":"507"}`, "fault must be one of"},
		{`{"Fault":"drop"}`, `no member "Fault"`},
		{`{"fault":"drop","fault":"reset"}`, "twice"},
		{`{"fault":"drop","queue":{}}`, "queue must be text"},
		{`{"fault":"drop","when":"never"}`, "before or after"},
		{`{"fault":"drop","when":"before"}`, "use reset"},
		{`{"fault":"reset","when":"after"}`, "use drop"},
		{`{"fault":"503","when":"after"}`, "promises that the call was not carried out"},
		{`{"fault":"delay"}`, "needs delayMs"},
		{`{"fault":"drop","delayMs":5}`, "needs delayMs"},
		{`{"fault":"delay","delayMs":0}`, "from 1 to 60000"},
		{`{"fault":"delay","delayMs":60001}`, "from 1 to 60000"},
		{`{"fault":"delay","delayMs":1.5}`, "whole number"},
		{`{"fault":"drop","probability":0}`, "above 0"},
		{`{"fault":"drop","probability":1.01}`, "above 0"},
		{`{"fault":"drop","probability":"1"}`, "above 0"},
		{`{"fault":"drop","count":0}`, "count must be"},
		{`{"fault":"drop","seed":-1}`, "seed must be"},
		{`{"fault":"drop","operation":"sned"}`, "there are send, receive"},
		{`{"fault":"drop","operation":"ack","queue":"orders"}`, "names no queue"},
		{`{"fault":"drop","queue":"a/b"}`, "must be names"},
		{`{"fault":"drop","spool":"a b"}`, "must be names"},
	}
	s := newServer(t)
	for _, tt := range tests {
		got := s.mustCall("POST", rulesPath, tt.rule, 400)
		var e errorJSON
		if err := json.Unmarshal([]byte(got.body), &e); err != nil || !strings.Contains(e.Message, tt.message) || !strings.HasSuffix(e.Message, ".") {
			t.Errorf("%s: %q (%v), want a sentence with %q", tt.rule, e.Message, err, tt.message)
		}
	}
	if left := s.rules(); len(left) != 0 {
		t.Errorf("rules are %+v", left)
	}
}

func TestManage(t *testing.T) {
	s := newServer(t)
	if got := s.mustCall("GET", rulesPath, "", 200); got.body != "{\"items\":[]}\n" {
		t.Errorf("no rules are listed as %q", got.body)
	}
	const rule = `{"fault":"delay","when":"after","operation":"send","spool":"default","queue":"orders","delayMs":5,"probability":0.5,"count":3,"seed":9`
	got := s.mustCall("POST", rulesPath, rule+"}", 201)
	if want := `{"id":"1",` + rule[1:] + `,"matched":0,"injected":0,"hiddenSuccesses":0}` + "\n"; got.body != want {
		t.Errorf("added %s, want %s", got.body, want)
	}
	s.add(`{"fault":"drop"}`)
	if r := s.rules(); len(r) != 2 || r[1].ID != "2" || r[1].When != "after" || r[1].Probability != 1 || r[1].Count != 0 {
		t.Errorf("rules are %+v", r)
	}
	if got := s.mustCall("DELETE", rulesPath+"/9", "", 404); !strings.Contains(got.body, "rule_not_found") {
		t.Errorf("an unknown rule: %+v", got)
	}
	s.mustCall("DELETE", rulesPath+"/1", "", 204)
	s.mustCall("GET", rulesPath+"?x=1", "", 400)
	s.mustCall("POST", rulesPath, strings.Repeat(" ", maxRuleBytes+1), 413)
	if got := s.mustCall("PUT", rulesPath, "", 405); got.header.Get("Allow") != "GET, POST, DELETE" {
		t.Errorf("PUT: %+v", got)
	}
	if got := s.mustCall("GET", rulesPath+"/2", "", 405); got.header.Get("Allow") != "DELETE" {
		t.Errorf("GET of one: %+v", got)
	}
	if r := s.rules(); len(r) != 1 || r[0].ID != "2" {
		t.Errorf("rules are %+v", r)
	}
	s.mustCall("DELETE", rulesPath, "", 204)
	for range maxRules {
		s.add(`{"fault":"drop","count":1}`)
	}
	s.mustCall("POST", rulesPath, `{"fault":"drop"}`, 409)
}

// TestKeys: only a key with the admin scope manages rules, and the others hear
// the same as of any other call.
func TestKeys(t *testing.T) {
	keys, err := httpapi.ParseKeys(strings.NewReader("boss\nsender scopes=send\ngone blocked\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, func(c *httpapi.Config) { c.AnyKey, c.Keys = false, keys })
	for key, want := range map[string]int{"boss": 200, "sender": 403, "gone": 403, "nobody": 401} {
		authorization := []string{"Authorization", "Bearer " + key}
		got := s.mustCall("GET", rulesPath, "", want, authorization...)
		if want == 200 {
			continue
		}
		same := s.mustCall("DELETE", "/v1/spools/default/queues/orders?mode=force", "", want, authorization...)
		if got.body != same.body || got.header.Get("Www-Authenticate") != same.header.Get("Www-Authenticate") {
			t.Errorf("%s: %+v, of another call %+v", key, got, same)
		}
		s.mustCall("POST", rulesPath, `{"fault":"drop"}`, want, authorization...)
		s.mustCall("DELETE", rulesPath, "", want, authorization...)
	}
	if n := s.broker.calls.Load(); n != 0 {
		t.Errorf("asking about keys changed something %d times", n)
	}
}

// TestWithoutTheInjector there are no rules.
func TestWithoutTheInjector(t *testing.T) {
	s := newServer(t)
	s.Config.Handler = newAPI(t, s.broker)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		if got := s.mustCall(method, rulesPath, "", 404); !strings.Contains(got.body, "nothing under this path") {
			t.Errorf("%s: %s", method, fmt.Sprint(got))
		}
	}
}
