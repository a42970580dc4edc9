package httpapi

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spoolraft/spoolraft/fsm"
)

func TestQueryRules(t *testing.T) {
	const spool = "/v1/spools/default"
	tests := []struct {
		method, target string
		ok             bool
	}{
		{"POST", testQueue + "/send?handle=true", true},
		{"POST", testQueue + "/send?handle=false", true},
		{"POST", testQueue + "/send?", true},
		{"POST", testQueue + "/send?&", true},
		{"POST", testQueue + "/send?handle=", false},
		{"POST", testQueue + "/send?handle", false},
		{"POST", testQueue + "/send?handle=1", false},
		{"POST", testQueue + "/send?handle=True", false},
		{"POST", testQueue + "/send?Handle=true", false},
		{"POST", testQueue + "/send?handle=true&handle=true", false},
		{"POST", testQueue + "/send?h%61ndle=tru%65", true},
		{"POST", testQueue + "/send?handle=true;x=1", false},
		{"POST", testQueue + "/send?handle=%zz", false},
		{"POST", testQueue + "/send?%=1", false},
		{"POST", testQueue + "/send?=", false},
		{"POST", testQueue + "/send?waitSeconds=1", false},
		{"POST", testQueue + "/send?" + strings.Repeat("x", 5000) + "=1", false},

		{"POST", testQueue + "/recv?waitSeconds=0", true},
		{"POST", testQueue + "/recv?waitSeconds=60", true},
		{"POST", testQueue + "/recv?waitSeconds=61", false},
		{"POST", testQueue + "/recv?waitSeconds=-1", false},
		{"POST", testQueue + "/recv?waitSeconds=1.5", false},
		{"POST", testQueue + "/recv?waitSeconds=", false},
		{"POST", testQueue + "/recv?waitSeconds=%2B1", false},
		{"POST", testQueue + "/recv?waitSeconds=1&waitSeconds=1", false},
		{"POST", testQueue + "/recv?max=10", false},

		{"DELETE", testQueue, false},
		{"DELETE", testQueue + "?mode=", false},
		{"DELETE", testQueue + "?mode=soft", false},
		{"DELETE", testQueue + "?mode=force", true},
		{"DELETE", testQueue + "?mode=drain", true},
		{"DELETE", testQueue + "?mode=drain&mode=force", false},
		{"DELETE", testQueue + "?uid=1", false},
		{"DELETE", testQueue + "?mode=force&uid=1", true},
		{"DELETE", testQueue + "?mode=force&uid=", false},
		{"DELETE", testQueue + "?mode=force&uid=" + strings.Repeat("1", 64), true},
		{"DELETE", testQueue + "?mode=force&uid=" + strings.Repeat("1", 65), false},
		{"DELETE", testQueue + "?mode=force&uid=%00", false},

		{"GET", spool + "/queues?match=%5Eor&limit=1&after=a", true},
		{"GET", spool + "/queues?match=&after=", true},
		{"GET", spool + "/queues?limit=1000", true},
		{"GET", spool + "/queues?limit=0", false},
		{"GET", spool + "/queues?limit=1001", false},
		{"GET", spool + "/queues?limit=", false},
		{"GET", spool + "/queues?after=a/b", false},
		{"GET", spool + "/queues?match=(", false},
		{"GET", spool + "/queues?match=(?=x)", false},
		{"GET", spool + "/queues?match=((a%7B1000%7D)%7B1000%7D)%7B1000%7D", false},
		{"GET", spool + "/queues?match=" + strings.Repeat("(", 512) + strings.Repeat(")", 512), true},
		{"GET", spool + "/queues?match=" + strings.Repeat("a", 1024), true},
		{"GET", spool + "/queues?match=" + strings.Repeat("a", 1025), false},
		{"GET", spool + "/queues?match=%FF", false},
		{"GET", spool + "/queues?match=a&match=b", false},
		{"GET", spool + "/queues?queue=a", false},
		{"GET", spool + "/queues?consistency=stale", false},

		{"GET", spool + "/stats?queue=a&queue=b&match=&limit=5&after=", true},
		{"GET", spool + "/stats?queue=", false},
		{"GET", spool + "/stats?queue=a/b", false},
		{"GET", spool + "/stats?" + strings.Repeat("queue=a&", 1000), true},
		{"GET", spool + "/stats?" + strings.Repeat("queue=a&", 1001), false},

		{"GET", testQueue + "/messages?state=failed&limit=3&after=1-1&handle=true", true},
		{"GET", testQueue + "/messages?after=", true},
		{"GET", testQueue + "/messages?state=", false},
		{"GET", testQueue + "/messages?state=gone", false},
		{"GET", testQueue + "/messages?state=Visible", false},
		{"GET", testQueue + "/messages?after=orders", false},
		{"GET", testQueue + "/messages?after=1", false},
		{"GET", testQueue + "/messages?after=1-", false},
		{"GET", testQueue + "/messages?after=0-1", false},
		{"GET", testQueue + "/messages?after=1-0", false},
		{"GET", testQueue + "/messages?after=1-01", false},
		{"GET", testQueue + "/messages?after=1-2-3", false},
		{"GET", testQueue + "/messages?after=-1-2", false},
		{"GET", testQueue + "/messages?after=1-18446744073709551615", true},
		{"GET", testQueue + "/messages?after=1-18446744073709551616", false},
		{"GET", testQueue + "/messages?match=a", false},

		{"GET", testQueue + "?x=1", false},
		{"PUT", testQueue + "?x=1", false},
		{"PATCH", testQueue + "?x=1", false},
		{"POST", spool + "/ack?x=1", false},
	}
	for _, test := range tests {
		b := &fakeBroker{
			answer: fsm.Answer{QueueNumber: 1, Queues: []fsm.QueueStats{{QueueInfo: someQueue}}},
		}
		var h header
		if strings.Contains(test.target, "/ack") {
			h = header{headerLease, sealed(fsm.Lease)}
		}
		w := do(newTestServer(t, b), test.method, test.target, "", h...)
		_, asked := b.asked()
		if test.ok != (w.Code < 300) || test.ok != (asked == 1) {
			t.Errorf("%s %.80s: %d, asked %d: %s", test.method, test.target, w.Code, asked, w.Body)
		}
		if !test.ok {
			wantProblem(t, w, 400, "")
		}
	}
}

func TestQueriesAsAsked(t *testing.T) {
	tests := []struct {
		target string
		want   fsm.Query
	}{
		{"/v1/spools/s1/queues", fsm.Query{Kind: fsm.QueryQueues, Spool: "s1", Limit: 100}},
		{"/v1/spools/s1/queues?limit=7&after=b&match=a%2Bb", fsm.Query{Kind: fsm.QueryQueues, Spool: "s1", Limit: 7, After: "b", Match: "a+b"}},
		{"/v1/spools/s1/queues?match=a+b", fsm.Query{Kind: fsm.QueryQueues, Spool: "s1", Limit: 100, Match: "a b"}},
		{"/v1/spools/s1/stats?queue=b&queue=a", fsm.Query{Kind: fsm.QueryStats, Spool: "s1", Limit: 100, Names: []string{"b", "a"}}},
		{"/v1/spools/s1/queues/q1/messages?after=1-9&state=delayed&limit=2",
			fsm.Query{Kind: fsm.QueryMessages, Spool: "s1", Queue: "q1", Limit: 2, AfterMessage: 9, State: fsm.StateDelayed}},
		{"/v1/spools/s1/queues/q1", fsm.Query{Kind: fsm.QueryQueue, Spool: "s1", Queue: "q1"}},
	}
	for _, test := range tests {
		b := &fakeBroker{answer: fsm.Answer{QueueNumber: 1, Queues: []fsm.QueueStats{{QueueInfo: someQueue}}}}
		wantStatus(t, do(newTestServer(t, b), "GET", test.target, ""), 200)
		if !reflect.DeepEqual(b.queries[0], test.want) {
			t.Errorf("%s: %+v, want %+v", test.target, b.queries[0], test.want)
		}
	}
}

// TestStates: every state can be asked for by its name.
func TestStates(t *testing.T) {
	for _, name := range []string{"delayed", "visible", "pending", "failed", "unavailable"} {
		state, ok := parseState(name)
		if !ok || stateNames[state] != name {
			t.Errorf("%s: %d", name, state)
		}
	}
}

func TestWaitAsAsked(t *testing.T) {
	for query, want := range map[string]time.Duration{"": 20 * time.Second, "?waitSeconds=0": 0, "?waitSeconds=60": time.Minute} {
		b := &waitRecorder{}
		wantStatus(t, do(newTestServer(t, b), "POST", testQueue+"/recv"+query, ""), 204)
		if b.wait != want {
			t.Errorf("%q waits %v", query, b.wait)
		}
	}
}

func TestParseNumber(t *testing.T) {
	for _, n := range []uint64{0, 1, 59, 60, 9_999_999_999} {
		if got, ok := parseNumber(strconv.FormatUint(n, 10), 0, 9_999_999_999); !ok || got != n {
			t.Errorf("%d: %d, %v", n, got, ok)
		}
	}
	for _, s := range []string{"", "a", "1a", "10000000000", "00000000001", "/", ":"} {
		if _, ok := parseNumber(s, 0, 1<<60); ok {
			t.Errorf("%q was taken", s)
		}
	}
}
