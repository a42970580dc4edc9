package faults

import (
	"encoding/json"
	"testing"
)

// FuzzRule: whatever is taken for a rule is complete, and means the same when
// it is given again as it is listed.
func FuzzRule(f *testing.F) {
	for _, rule := range []string{
		`{"fault":"drop"}`, `{"fault":"503","operation":"send","queue":"orders","probability":0.3,"count":5,"seed":7}`,
		`{"fault":"delay","delayMs":250,"when":"after","spool":"default"}`, `{"fault":"503","when":"after"}`, `{}`, `{"fault":"drop"}x`,
	} {
		f.Add([]byte(rule))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := parseSpec(body)
		if err != nil {
			return
		}
		if s.Fault == fault503 && s.When != before {
			t.Errorf("%s is taken for %+v, a 503 after the call", body, s)
		}
		listed, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseSpec(listed); err != nil || again != s {
			t.Errorf("%s is listed as %s, which is %+v (%v), not %+v", body, listed, again, err, s)
		}
	})
}
